package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// schemaField is one field of a JSON object.
type schemaField struct {
	path, value, meaning string
	optional             bool
}

// fieldsOf lists the fields of a struct as JSON has them, those of structs
// within it too.
func fieldsOf(t *testing.T, typ reflect.Type, prefix string) (fields []schemaField) {
	t.Helper()
	for i := range typ.NumField() {
		f := typ.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && tag == "" {
			fields = append(fields, fieldsOf(t, f.Type, prefix)...)
			continue
		}
		if !f.IsExported() || tag == "-" {
			continue
		}
		if tag == "" {
			t.Errorf("%v.%s has no name in JSON", typ, f.Name)
		}
		meaning := meaningOf(t, typ, f.Name)
		if meaning == "" {
			t.Errorf("%v.%s has no comment: the reference cannot say what it means", typ, f.Name)
		}
		optional := strings.Contains(options, "omitempty")
		value, inner, mark := jsonType(t, f.Type)
		fields = append(fields, schemaField{prefix + tag, value, meaning, optional})
		if inner != nil {
			fields = append(fields, fieldsOf(t, inner, prefix+tag+mark+".")...)
		}
	}
	return fields
}

// jsonType names a type as JSON has it; inner is the struct within it.
func jsonType(t *testing.T, typ reflect.Type) (value string, inner reflect.Type, mark string) {
	t.Helper()
	switch typ.Kind() {
	case reflect.Pointer:
		return jsonType(t, typ.Elem())
	case reflect.String:
		return "string", nil, ""
	case reflect.Bool:
		return "true or false", nil, ""
	case reflect.Float64:
		return "number", nil, ""
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return "whole number", nil, ""
	case reflect.Struct:
		return "object", typ, ""
	case reflect.Map:
		if typ.Elem().Kind() != reflect.String {
			return "object", nil, ""
		}
		return "object of strings", nil, ""
	case reflect.Slice:
		of, inner, _ := jsonType(t, typ.Elem())
		return "list of " + of + "s", inner, "[]"
	}
	t.Fatalf("no JSON for %v", typ)
	return "", nil, ""
}

// comments holds, per folder and type, the comments of the fields.
var comments = struct {
	sync.Mutex
	of map[string]map[string]string
}{of: map[string]map[string]string{}}

// meaningOf is the comment of a field in the source.
func meaningOf(t *testing.T, typ reflect.Type, field string) string {
	t.Helper()
	const module = "github.com/spillway-kv/spillway"
	dir := filepath.Join("../..", strings.TrimPrefix(typ.PkgPath(), module))
	comments.Lock()
	defer comments.Unlock()
	if comments.of[dir] == nil {
		comments.of[dir] = readComments(t, dir)
	}
	return comments.of[dir][typ.Name()+"."+field]
}

func readComments(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no source in %s: %v", dir, err)
	}
	set := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(path.Base(name), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range s.Fields.List {
					for _, id := range field.Names {
						found[spec.Name.Name+"."+id.Name] = comment(field, id.Name)
					}
				}
			}
			return true
		})
	}
	return found
}

// comment is the text beside or above a field, without its name.
func comment(field *ast.Field, name string) string {
	text := field.Comment.Text()
	if text == "" {
		text = field.Doc.Text()
	}
	text = strings.Join(strings.Fields(text), " ")
	for _, start := range []string{name + ": ", name + " is ", name + " are "} {
		text = strings.TrimPrefix(text, start)
	}
	return strings.TrimSuffix(text, ".")
}
