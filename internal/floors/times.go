package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A test on real time waits for what must happen, and gives it a minute at least: a machine with
// eight times its load is slow. What is shorter is found here: bounds of contexts, timers and
// polls, pauses, and what the clock is compared with.

// shortest is the shortest bound that a test may give what must happen.
const shortest = time.Minute

// checkTimes returns the bounds that are too short, except those of allowedTimes, and the
// entries of that which name none.
func checkTimes(root string) (problems []string, err error) {
	ts, err := readTests(root)
	if err != nil {
		return nil, err
	}
	unused := maps.Clone(allowedTimes)
	for _, b := range ts.shortBounds() {
		if _, ok := allowedTimes[b.where]; !ok {
			problems = append(problems, b.String())
		}
		delete(unused, b.where)
	}
	for _, where := range slices.Sorted(maps.Keys(unused)) {
		problems = append(problems, fmt.Sprintf("allowedTimes: %s has no bound in time that is too short", where))
	}
	return problems, nil
}

// shortBound is a bound in time that is too short.
type shortBound struct {
	where string // the file and the function
	line  int
	d     time.Duration
}

func (b shortBound) String() string {
	return fmt.Sprintf("%s, line %d: %v of real time; wait for the thing, for a minute at least, in simulated time, or enter it in allowedTimes", b.where, b.line, b.d)
}

// shortBounds returns the bounds that are too short, in code that may run outside of bubbles.
func (ts *tests) shortBounds() (found []shortBound) {
	add := func(src *source, function string, n ast.Node) {
		s := newScope(ts, src, n)
		ts.outside(src, n, func(n ast.Node, above []ast.Node) {
			for _, e := range s.bounds(n, above) {
				if d, ok := s.duration(e); ok && 0 < d && d < shortest {
					found = append(found, shortBound{src.name + " " + function, ts.fset.Position(e.Pos()).Line, d})
				}
			}
		})
	}
	for _, src := range ts.files {
		for _, decl := range src.Decls {
			if decl, ok := decl.(*ast.GenDecl); ok {
				add(src, "var", decl)
			}
		}
	}
	ts.each(func(fn *function) {
		if !ts.inBubble(fn.src, fn.decl.Recv, fn.decl.Type, fn.decl.Body) {
			add(fn.src, fn.decl.Name.Name, fn.decl.Body)
		}
	})
	slices.SortFunc(found, func(a, b shortBound) int { return strings.Compare(a.String(), b.String()) })
	return found
}

// timed are the functions that take a bound in time, and which argument it is.
var timed = map[string]map[string]int{
	"context": {"WithTimeout": 1, "WithTimeoutCause": 1},
	"time":    {"After": 0, "AfterFunc": 0, "NewTimer": 0, "Sleep": 0},
	"net":     {"DialTimeout": 2},
}

// polls are testify's functions that wait. Their third argument is the bound.
var polls = []string{"Eventually", "Eventuallyf", "EventuallyWithT", "Never"}

// boundsOf returns the arguments of a call that are bounds in time.
func (ts *tests) boundsOf(src *source, call *ast.CallExpr) (args []int) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if ok {
		if i, ok := timed[src.pkg(sel)][sel.Sel.Name]; ok {
			return []int{i}
		}
		if strings.HasPrefix(src.pkg(sel), testify) && slices.Contains(polls, sel.Sel.Name) {
			return []int{2}
		}
		if now, ok := sel.X.(*ast.CallExpr); ok && sel.Sel.Name == "Add" && src.is(now.Fun, "time", "Now") {
			return []int{0}
		}
	}
	for _, fn := range ts.called(src, call.Fun) {
		for i := range fn.bounds {
			args = append(args, i)
		}
	}
	return args
}

const testify = "github.com/stretchr/testify/"

// pkg returns the package whose name is selected, "" if it is a value's.
func (src *source) pkg(sel *ast.SelectorExpr) string {
	if id, ok := sel.X.(*ast.Ident); ok {
		return src.imports[id.Name]
	}
	return ""
}

// growBounds adds parameters that functions use as bounds in time.
func (ts *tests) growBounds() (grown bool) {
	ts.each(func(fn *function) {
		names := fn.parameters()
		ts.outside(fn.src, fn.decl.Body, func(n ast.Node, above []ast.Node) {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return
			}
			for _, i := range ts.boundsOf(fn.src, call) {
				if i >= len(call.Args) {
					continue
				}
				id, ok := call.Args[i].(*ast.Ident)
				if !ok {
					continue
				}
				if p := slices.Index(names, id.Name); p >= 0 && !fn.bounds[p] {
					fn.bounds[p], grown = true, true
				}
			}
		})
	})
	return grown
}

// scope is what the names in a function stand for.
type scope struct {
	ts     *tests
	src    *source
	values map[string]time.Duration
	// clocked are what was read from the clock.
	clocked map[string]bool
}

func newScope(ts *tests, src *source, n ast.Node) *scope {
	s := &scope{ts, src, map[string]time.Duration{}, map[string]bool{}}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, id := range n.Names {
				if i < len(n.Values) {
					s.define(id, n.Values[i])
				}
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if id, ok := left.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) {
					s.define(id, n.Rhs[i])
				}
			}
		}
		return true
	})
	return s
}

func (s *scope) define(id *ast.Ident, e ast.Expr) {
	d, ok := s.duration(e)
	if before, again := s.values[id.Name]; ok && (!again || d < before) {
		s.values[id.Name] = d
	}
	if s.readsClock(e) {
		s.clocked[id.Name] = true
	}
}

// bounds returns the bounds in time that n has.
func (s *scope) bounds(n ast.Node, above []ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.CallExpr:
		if isPause(n) && inPoll(above) {
			return nil
		}
		return slices.Concat(s.argumentBounds(n), s.assertedBounds(n), flagBounds(n.Args))
	case *ast.CompositeLit:
		return slices.Concat(s.fieldBounds(n), flagBounds(n.Elts))
	case *ast.BinaryExpr:
		if slices.Contains([]token.Token{token.LSS, token.LEQ, token.GTR, token.GEQ}, n.Op) && s.readsClock(n) {
			return []ast.Expr{n.X, n.Y}
		}
	case *ast.AssignStmt:
		if sel, ok := n.Lhs[0].(*ast.SelectorExpr); ok && sel.Sel.Name == "WaitDelay" {
			return n.Rhs
		}
	}
	return nil
}

func (s *scope) argumentBounds(call *ast.CallExpr) (found []ast.Expr) {
	for _, i := range s.ts.boundsOf(s.src, call) {
		if i < len(call.Args) {
			found = append(found, call.Args[i])
		}
	}
	return found
}

// fieldBounds returns the timeout of a value with which connections are made.
func (s *scope) fieldBounds(lit *ast.CompositeLit) (found []ast.Expr) {
	if !s.src.is(lit.Type, "net", "Dialer") && !s.src.is(lit.Type, "net/http", "Client") {
		return nil
	}
	for _, field := range lit.Elts {
		if field, ok := field.(*ast.KeyValueExpr); ok {
			if id, ok := field.Key.(*ast.Ident); ok && id.Name == "Timeout" {
				found = append(found, field.Value)
			}
		}
	}
	return found
}

// assertedBounds returns the upper bound that testify compares the clock with.
func (s *scope) assertedBounds(call *ast.CallExpr) []ast.Expr {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !strings.HasPrefix(s.src.pkg(sel), testify) || !s.readsClock(call) {
		return nil
	}
	i, ok := map[string]int{"Less": 2, "LessOrEqual": 2, "Greater": 1, "GreaterOrEqual": 1, "WithinDuration": 3, "InDelta": 3}[sel.Sel.Name]
	if !ok || i >= len(call.Args) {
		return nil
	}
	return call.Args[i : i+1]
}

// flagBounds returns the values of flags of zkr that are bounds in time.
func flagBounds(args []ast.Expr) (found []ast.Expr) {
	for i, arg := range args {
		flag, ok := arg.(*ast.BasicLit)
		if ok && (flag.Value == `"-w"` || flag.Value == `"--connect-timeout"`) && i+1 < len(args) {
			found = append(found, args[i+1])
		}
	}
	return found
}

// isPause reports whether a call is one of time.Sleep, or of a function of that name.
func isPause(call *ast.CallExpr) bool {
	switch fun := call.Fun.(type) {
	case *ast.SelectorExpr:
		return fun.Sel.Name == "Sleep"
	case *ast.Ident:
		return fun.Name == "sleep"
	}
	return false
}

// inPoll reports whether the nearest loop goes on until something is so, and counts nothing.
func inPoll(above []ast.Node) bool {
	for _, n := range slices.Backward(above) {
		switch n := n.(type) {
		case *ast.ForStmt:
			_, counts := n.Post.(*ast.IncDecStmt)
			return !counts
		case *ast.RangeStmt, *ast.FuncLit:
			return false
		}
	}
	return false
}

// readsClock reports whether an expression has a value that was read from the clock.
func (s *scope) readsClock(e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.SelectorExpr:
			found = found || s.src.is(n, "time", "Now", "Since", "Until")
		case *ast.Ident:
			found = found || s.clocked[n.Name]
		}
		return !found
	})
	return found
}

// units are the durations of the package time.
var units = map[string]time.Duration{
	"Nanosecond": time.Nanosecond, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
	"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
}

// duration returns the value of an expression that is a constant duration.
func (s *scope) duration(e ast.Expr) (time.Duration, bool) {
	switch e := e.(type) {
	case *ast.BasicLit: // a flag's value
		text, _ := strconv.Unquote(e.Value)
		d, err := time.ParseDuration(text)
		return d, err == nil
	case *ast.ParenExpr:
		return s.duration(e.X)
	case *ast.Ident:
		if d, ok := s.values[e.Name]; ok {
			return d, true
		}
		d, ok := s.ts.durations[s.src.dir+"."+e.Name]
		return d, ok
	case *ast.SelectorExpr:
		if s.src.pkg(e) == "time" {
			d, ok := units[e.Sel.Name]
			return d, ok
		}
		d, ok := s.ts.durations[s.src.pkg(e)+"."+e.Sel.Name]
		return d, ok
	case *ast.BinaryExpr:
		return s.product(e)
	}
	return 0, false
}

// product returns the value of an operation on a duration and a number, or on two durations.
func (s *scope) product(e *ast.BinaryExpr) (time.Duration, bool) {
	x, xOK := s.duration(e.X)
	y, yOK := s.duration(e.Y)
	switch {
	case xOK && yOK && e.Op == token.ADD:
		return x + y, true
	case xOK && yOK && e.Op == token.SUB:
		return x - y, true
	case yOK && e.Op == token.MUL:
		n, ok := number(e.X)
		return time.Duration(n * float64(y)), ok
	case xOK && e.Op == token.MUL:
		n, ok := number(e.Y)
		return time.Duration(float64(x) * n), ok
	case xOK && e.Op == token.QUO:
		n, ok := number(e.Y)
		return time.Duration(float64(x) / n), ok
	}
	return 0, false
}

func number(e ast.Expr) (float64, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseFloat(lit.Value, 64)
	return n, err == nil && n != 0
}
