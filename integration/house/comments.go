package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
)

// wellKnown methods need no comment: their contract is an interface of the
// standard library.
var wellKnown = []string{"String", "Error", "Unwrap", "Is", "As", "Format", "Len", "Less", "Swap",
	"MarshalText", "UnmarshalText", "MarshalJSON", "UnmarshalJSON", "MarshalBinary", "UnmarshalBinary"}

// checkComments wants a doc comment on every package and on every exported
// identifier outside tests and commands.
func checkComments(t *Tree) []Finding {
	var found []Finding
	type pkg struct {
		first      *File
		documented bool
	}
	packages := map[string]*pkg{}
	for f := range t.goFiles {
		if f.Test() {
			continue
		}
		p := packages[f.Dir()]
		if p == nil {
			p = &pkg{first: f}
			packages[f.Dir()] = p
		}
		p.documented = p.documented || f.AST.Doc != nil
		if f.AST.Name.Name == "main" {
			continue
		}
		for _, id := range undocumented(f.AST) {
			found = append(found, Finding{f.Path, t.line(id.Pos()), fmt.Sprintf(
				"%s has no doc comment: say what it does, its units, who owns its memory, when it fails", id.Name)})
		}
	}
	for _, p := range packages {
		if !p.documented {
			found = append(found, Finding{p.first.Path, t.line(p.first.AST.Package), fmt.Sprintf(
				"package %s has no comment: say in one file what it is for", p.first.AST.Name.Name)})
		}
	}
	return found
}

// undocumented lists the exported identifiers of one file without a comment.
func undocumented(f *ast.File) []*ast.Ident {
	var bare []*ast.Ident
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) &&
				(d.Recv == nil || !slices.Contains(wellKnown, d.Name.Name)) {
				bare = append(bare, d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				bare = append(bare, undocumentedSpec(d, spec)...)
			}
		}
	}
	return bare
}

// exportedReceiver reports whether fn is a function or the method of an
// exported type.
func exportedReceiver(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return true
	}
	typ := fn.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

// undocumentedSpec lists the bare names of one spec. A comment on the group
// serves constants and variables but not types; so does the type of an enum,
// which the first constant of the group names.
func undocumentedSpec(group *ast.GenDecl, spec ast.Spec) []*ast.Ident {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		alone := !group.Lparen.IsValid() && group.Doc != nil
		if s.Doc == nil && s.Comment == nil && !alone && s.Name.IsExported() {
			return []*ast.Ident{s.Name}
		}
	case *ast.ValueSpec:
		if s.Doc != nil || s.Comment != nil || group.Doc != nil || enum(group) {
			return nil
		}
		return slices.DeleteFunc(slices.Clone(s.Names), func(id *ast.Ident) bool { return !id.IsExported() })
	}
	return nil
}

func enum(group *ast.GenDecl) bool {
	if group.Tok != token.CONST || !group.Lparen.IsValid() || len(group.Specs) == 0 {
		return false
	}
	first, ok := group.Specs[0].(*ast.ValueSpec)
	return ok && first.Type != nil
}
