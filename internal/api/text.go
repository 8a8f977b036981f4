package main

import (
	"bytes"
	"fmt"
	"go/constant"
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// describe returns a line for each exported name, field and method. What belongs to a type
// follows it.
func describe(pkgs map[string]*packages.Package) []byte {
	var text bytes.Buffer
	for _, rest := range slices.Sorted(maps.Keys(pkgs)) {
		p := pkgs[rest].Types
		for _, name := range p.Scope().Names() { // sorted
			if o := p.Scope().Lookup(name); o.Exported() {
				for _, line := range describeObject(o) {
					fmt.Fprintf(&text, "%s: %s\n", p.Name(), line)
				}
			}
		}
	}
	return text.Bytes()
}

func describeObject(o types.Object) []string {
	switch o := o.(type) {
	case *types.Const:
		return []string{fmt.Sprintf("const %s %s = %s", o.Name(), text(o.Type()), value(o.Val()))}
	case *types.Var:
		return []string{fmt.Sprintf("var %s %s", o.Name(), text(o.Type()))}
	case *types.Func:
		return []string{"func " + o.Name() + signature(o)}
	case *types.TypeName:
		return describeType(o)
	}
	panic(fmt.Sprintf("exported %T", o))
}

func describeType(o *types.TypeName) []string {
	if o.IsAlias() {
		return []string{fmt.Sprintf("type %s = %s", o.Name(), text(types.Unalias(o.Type())))}
	}
	named := o.Type().(*types.Named)
	first := "type " + o.Name() + typeParameters(named.TypeParams()) + " "
	var members []string
	switch u := named.Underlying().(type) {
	case *types.Struct:
		first += "struct"
		for f := range u.Fields() {
			switch {
			case f.Embedded():
				members = append(members, fmt.Sprintf("field %s.%s %s, embedded", o.Name(), f.Name(), text(f.Type())))
			case f.Exported():
				members = append(members, fmt.Sprintf("field %s.%s %s", o.Name(), f.Name(), text(f.Type())))
			}
		}
	case *types.Interface:
		first += "interface"
		for m := range u.Methods() {
			if !m.Exported() {
				members = append(members, fmt.Sprintf("method %s.%s, unexported", o.Name(), m.Name()))
			}
		}
	default:
		first += text(u)
	}
	own := types.NewMethodSet(named)
	all := own
	if !types.IsInterface(named) {
		all = types.NewMethodSet(types.NewPointer(named))
	}
	for m := range all.Methods() { // promoted ones, too
		if !m.Obj().Exported() {
			continue
		}
		receiver := o.Name()
		if own.Lookup(nil, m.Obj().Name()) == nil {
			receiver = "(*" + receiver + ")"
		}
		members = append(members, fmt.Sprintf("method %s.%s%s", receiver, m.Obj().Name(), signature(m.Obj())))
	}
	slices.Sort(members)
	return append([]string{first}, members...)
}

// madeUp matches names that the compiler gives to results.
var madeUp = regexp.MustCompile(`#rv[0-9]+ `)

// text writes a type with packages qualified by their names.
func text(t types.Type) string {
	return madeUp.ReplaceAllString(types.TypeString(t, (*types.Package).Name), "")
}

func signature(o types.Object) string { return strings.TrimPrefix(text(o.Type()), "func") }

// value is the value of a constant.
func value(v constant.Value) string {
	if v.Kind() == constant.Float {
		return v.String() // the exact one may be a fraction of large numbers
	}
	return v.ExactString()
}

func typeParameters(list *types.TypeParamList) string {
	if list.Len() == 0 {
		return ""
	}
	var all []string
	for t := range list.TypeParams() {
		all = append(all, t.Obj().Name()+" "+text(t.Constraint()))
	}
	return "[" + strings.Join(all, ", ") + "]"
}
