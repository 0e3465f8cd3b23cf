package config

import (
	"fmt"
	"reflect"

	"github.com/pelletier/go-toml/v2"
)

// Merge is f with what next may change of a daemon that runs. changed names the keys
// that are others now, restart those that are others in next and wait for a restart.
func (f *File) Merge(next *File) (merged *File, changed, restart []string) {
	copied := *f
	merge("", reflect.ValueOf(&copied).Elem(), reflect.ValueOf(next).Elem(), &changed, &restart)
	return &copied, changed, restart
}

func merge(path string, to, from reflect.Value, changed, restart *[]string) {
	for f := range to.Type().Fields() {
		name := path + f.Tag.Get("toml")
		a, b := to.FieldByIndex(f.Index), from.FieldByIndex(f.Index)
		switch {
		case reflect.DeepEqual(a.Interface(), b.Interface()):
		case f.Tag.Get("reload") != "":
			a.Set(b)
			*changed = append(*changed, name)
		case isTable(f.Type):
			merge(name+".", a, b, changed, restart)
		case f.Type.Kind() == reflect.Slice && isTable(f.Type.Elem()) && a.Len() == b.Len():
			for i := range a.Len() {
				differences(fmt.Sprintf("%s[%d].", name, i+1), a.Index(i), b.Index(i), restart)
			}
		default:
			*restart = append(*restart, name)
		}
	}
}

// differences names the fields in which two tables differ.
func differences(path string, a, b reflect.Value, names *[]string) {
	for f := range a.Type().Fields() {
		if !reflect.DeepEqual(a.FieldByIndex(f.Index).Interface(), b.FieldByIndex(f.Index).Interface()) {
			*names = append(*names, path+f.Tag.Get("toml"))
		}
	}
}

// isTable tells a table of keys from a value that is a struct.
func isTable(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for f := range t.Fields() {
		if f.Tag.Get("toml") != "" {
			return true
		}
	}
	return false
}

// TOML writes the configuration; tokens are hidden.
func (f *File) TOML() ([]byte, error) { return toml.Marshal(f) }
