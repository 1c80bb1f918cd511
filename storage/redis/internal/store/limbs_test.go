package store

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/big"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// The script computes with numbers of three limbs of 24 bits, in the floating point numbers of Lua, in
// which whole numbers are exact up to 2^53. There are too many of them to try all. So Z3 proves for all
// limbs what the lines of the script compute: they are translated to formulas here, so that the proof is
// one of the script and not of a text beside it.

// limbBase is B of the script.
const limbBase int64 = 1 << 24

// limbs translates lines of the script to formulas on whole numbers.
type limbs struct {
	*testing.T
	text    string
	decls   strings.Builder
	exact   []string // terms that must be exact in floating point
	defined int
}

// lines returns what matches a group of a pattern in the script.
func (l *limbs) lines(pattern string) string {
	l.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(l.text)
	if m == nil {
		l.Fatalf("claim.lua has no %s", pattern)
	}
	return m[1]
}

// define names a term.
func (l *limbs) define(term string) string {
	l.defined++
	name := fmt.Sprint("v", l.defined)
	fmt.Fprintf(&l.decls, "(define-fun %s () Int %s)\n", name, term)
	return name
}

// term translates an expression. Variables and limbs have the terms of env.
func (l *limbs) term(expression string, env map[string]string) string {
	l.Helper()
	e, err := parser.ParseExpr(strings.ReplaceAll(expression, "math.floor", "floor"))
	if err != nil {
		l.Fatalf("%s: %v", expression, err)
	}
	return l.translate(e, env)
}

func (l *limbs) translate(e ast.Expr, env map[string]string) string {
	l.Helper()
	switch e := e.(type) {
	case *ast.Ident:
		if e.Name == "B" {
			return strconv.FormatInt(limbBase, 10)
		}
		if term := env[e.Name]; term != "" {
			return term
		}
	case *ast.BasicLit:
		return e.Value
	case *ast.IndexExpr:
		return env[e.X.(*ast.Ident).Name+e.Index.(*ast.BasicLit).Value]
	case *ast.ParenExpr:
		return l.translate(e.X, env)
	case *ast.CallExpr: // floor of a quotient by a power of two, which is exact
		quotient := e.Args[0].(*ast.BinaryExpr)
		return l.define("(div " + l.translate(quotient.X, env) + " " + l.translate(quotient.Y, env) + ")")
	case *ast.BinaryExpr:
		x, y := l.translate(e.X, env), l.translate(e.Y, env)
		if product := env[x+"*"+y]; e.Op == token.MUL && product != "" {
			return product
		}
		operator := map[token.Token]string{token.ADD: "+", token.SUB: "-", token.MUL: "*", token.REM: "mod"}[e.Op]
		term := l.define("(" + operator + " " + x + " " + y + ")")
		l.exact = append(l.exact, term)
		return term
	}
	l.Fatalf("no formula for %T", e)
	return ""
}

// call translates a list of expressions.
func (l *limbs) call(list string, env map[string]string) (terms []string) {
	for expression := range strings.SplitSeq(list, ", ") {
		terms = append(terms, l.term(expression, env))
	}
	return terms
}

// carry translates the function of that name, for three terms.
func (l *limbs) carry(args []string) (result []string) {
	l.Helper()
	env := map[string]string{"a": args[0], "b": args[1], "c": args[2]}
	for line := range strings.SplitSeq(strings.TrimSpace(l.lines(`local function carry\(a, b, c\)\n((?:  .*\n)*)end`)), "\n") {
		line = strings.TrimPrefix(strings.TrimSpace(line), "local ")
		if list, ok := strings.CutPrefix(line, "return {"); ok {
			return l.call(strings.TrimSuffix(list, "}"), env)
		}
		names, list, _ := strings.Cut(line, " = ")
		terms := l.call(list, env)
		for i, name := range strings.Split(names, ", ") {
			env[name] = terms[i]
		}
	}
	l.Fatal("carry returns nothing")
	return nil
}

// value returns the number that limbs are.
func value(limbs []string) string {
	return fmt.Sprintf("(+ %s (* %d %s) (* %d %s))", limbs[0], limbBase, limbs[1], limbBase*limbBase, limbs[2])
}

// wrap is 2^72, at which numbers wrap around.
var wrap = new(big.Int).Lsh(big.NewInt(1), 72)

// problem returns formulas that have no solution if a function of the script computes the result of an
// operator for all limbs, modulo 2^72, and exactly in floating point.
func (l *limbs) problem(function, operator string) string {
	l.Helper()
	env := make(map[string]string)
	var xs, ys []string
	for i := 1; i <= 3; i++ {
		x, y := fmt.Sprint("x", i), fmt.Sprint("y", i)
		xs, ys = append(xs, x), append(ys, y)
		env[x], env[y] = x, y
		fmt.Fprintf(&l.decls, "(declare-const %s Int) (declare-const %s Int)\n", x, y)
		fmt.Fprintf(&l.decls, "(assert (and (<= 0 %s) (< %s %d) (<= 0 %s) (< %s %d)))\n", x, x, limbBase, y, y, limbBase)
	}
	want := "(" + operator + " " + value(xs) + " " + value(ys) + ")"
	if operator == "*" { // by the distributive law a sum of the products of limbs, which may be any
		want = "(+"
		for i, x := range xs {
			for j, y := range ys {
				p := "p" + x + y
				env[x+"*"+y] = p
				fmt.Fprintf(&l.decls, "(declare-const %s Int) (assert (and (<= 0 %s) (<= %s %d)))\n", p, p, p, (limbBase-1)*(limbBase-1))
				want += fmt.Sprintf(" (* %s %s)", new(big.Int).Lsh(big.NewInt(1), uint(24*(i+j))), p)
				l.exact = append(l.exact, p)
			}
		}
		want += ")"
	}
	list := l.lines(`local function ` + function + `\(x, y\)\s+return carry\((.*)\)\s+end`)
	return l.negation(l.carry(l.call(list, env)), want)
}

// negation returns formulas for limbs that are no number, are another one than is wanted, or need numbers
// that floating point has not.
func (l *limbs) negation(result []string, want string) string {
	goals := []string{fmt.Sprintf("(= 0 (mod (- %s %s) %s))", value(result), want, wrap)}
	for _, limb := range result {
		goals = append(goals, fmt.Sprintf("(and (<= 0 %s) (< %s %d))", limb, limb, limbBase))
	}
	for _, term := range l.exact {
		goals = append(goals, fmt.Sprintf("(<= (- %d) %s %d)", int64(1)<<53, term, int64(1)<<53))
	}
	return l.decls.String() + "(assert (not (and " + strings.Join(goals, " ") + ")))\n(check-sat)\n"
}

// bigProblem is problem for the function big, which makes limbs of a number.
func (l *limbs) bigProblem() string {
	fmt.Fprintf(&l.decls, "(declare-const n Int) (assert (and (<= 0 n) (< n %d)))\n", int64(1)<<53)
	env := map[string]string{"n": "n"}
	body := l.lines(`local function big\(n\).*\n((?:  .*\n)*)end`)
	first, second, _ := strings.Cut(strings.TrimSpace(body), "\n")
	env["up"] = l.term(strings.TrimPrefix(first, "local up = "), env)
	list := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(second), "return carry("), ")")
	return l.negation(l.carry(l.call(list, env)), "n")
}

// problems returns the formulas for all functions in a script.
func problems(t *testing.T, text string) map[string]string {
	t.Helper()
	if !strings.Contains(text, fmt.Sprintf("local B = %d\n", limbBase)) {
		t.Fatalf("a limb of claim.lua is not below %d", limbBase)
	}
	script := func() *limbs { return &limbs{T: t, text: text} }
	return map[string]string{
		"mul": script().problem("mul", "*"), "plus": script().problem("plus", "+"), "minus": script().problem("minus", "-"),
		"big": script().bigProblem(),
	}
}

// solve returns the answer of Z3: unsat if formulas have no solution.
func solve(t *testing.T, formulas string) string {
	t.Helper()
	z3, err := exec.LookPath("z3")
	if err != nil {
		t.Skip("needs z3, a package of Debian")
	}
	cmd := exec.Command(z3, "-in", "-T:60")
	cmd.Stdin = strings.NewReader(formulas)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("z3: %v\n%s\n%s", err, out, formulas)
	}
	return strings.TrimSpace(string(out))
}

// Z3 proves that the functions of limbs in the script compute products, sums and differences modulo 2^72.
// With a fault in the script it doesn't.
func TestLimbsAreProved(t *testing.T) {
	text := source("claim")
	for name, formulas := range problems(t, text) {
		if got := solve(t, formulas); got != "unsat" {
			t.Errorf("%s: z3 says %s, want unsat:\n%s", name, got, formulas)
		}
	}
	for _, fault := range []struct{ function, was, now string }{
		{"mul", "x[1] * y[2] + x[2] * y[1]", "x[1] * y[2] + x[2] * y[2]"},
		{"mul", "x[2] * y[2] + x[3]", "x[3]"},
		{"plus", "b, c = b - up * B, c + up", "b, c = b - up * B, c"},
		{"minus", "x[3] - y[3])", "y[3] - x[3])"},
		{"mul", "c % B}", "c}"},
		{"big", "carry(n - up * B, up, 0)", "carry(n * B - n * B + n - up * B, up, 0)"}, // needs 77 bits
		{"big", "carry(n - up * B, up, 0)", "carry(n - up * B, up * B, 0)"},
	} {
		if strings.Count(text, fault.was) == 0 {
			t.Fatalf("claim.lua has no %s", fault.was)
		}
		if got := solve(t, problems(t, strings.ReplaceAll(text, fault.was, fault.now))[fault.function]); got != "sat" {
			t.Errorf("%s with %s: z3 says %s, want sat", fault.function, fault.now, got)
		}
	}
}

// The quotient of refilled is estimated in floating point. It is off by so little that the rest is right
// although its limbs wrap around, and the loops after it end soon.
func TestEstimatedQuotients(t *testing.T) {
	l := &limbs{T: t, text: source("claim")}
	roundings := 0
	for _, line := range []string{l.lines(`local units = math\.floor\((.*)\) --`), l.lines(`local length = (.*)`)} {
		roundings += strings.Count(line, "*") + strings.Count(line, "+") + strings.Count(line, "/")
	}
	if l.lines(`local ENDLESS = ([0-9]+)`) != fmt.Sprint(int64(1)<<46) {
		t.Error("the most units are not 2^46")
	}
	// Each rounding is of a positive number, and changes it by at most a factor of 1 + 2^-53: all change a
	// quotient of about 2^46 by less than 2^46 * 2 * roundings / 2^53. Then it is rounded down.
	if most := big.NewRat(int64(2*roundings), 1<<7); most.Cmp(big.NewRat(1, 1)) >= 0 {
		t.Errorf("after %d roundings the quotient may be off by %v", roundings, most)
	}
	rest := new(big.Int).Mul(big.NewInt(int64(limiter.MaxWindow)), big.NewInt(3))
	if rest.Cmp(new(big.Int).Rsh(wrap, 1)) >= 0 {
		t.Errorf("a rest may be %v, which is negative as limbs", rest)
	}
}

// Limbs on a server are those of unbounded numbers, also at the edges.
func TestLimbsOnAServer(t *testing.T) {
	s := openedBy(t, Opener(newPlace(t)))
	part := (&limbs{T: t, text: source("claim")}).lines(`(?s)(local B = .*?)local BILLION`)
	script := rueidis.NewLuaScript(part + `
local function limbs(i) return {tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])} end
local answers = {}
for i = 1, #ARGV, 6 do
  local x, y = limbs(i), limbs(i + 3)
  for _, z in ipairs({mul(x, y), plus(x, y), minus(x, y)}) do
    answers[#answers + 1] = string.format('%.0f %.0f %.0f', z[1], z[2], z[3])
  end
  answers[#answers + 1] = tostring(less(x, y))
end
return answers`)
	const pairs = 1000
	var args []string
	var numbers []*big.Int
	for range 2 * pairs {
		n := new(big.Int)
		for range 3 {
			limb := []int64{0, 1, limbBase / 2, limbBase - 1, rand.Int64N(limbBase)}[rand.IntN(5)]
			args = append(args, fmt.Sprint(limb))
			n.Add(n, new(big.Int).Lsh(big.NewInt(limb), uint(24*(len(args)-1)%72)))
		}
		numbers = append(numbers, n)
	}
	answers, err := script.Exec(t.Context(), s.server.client, nil, args).AsStrSlice()
	if err != nil || len(answers) != 4*pairs {
		t.Fatalf("%d answers, %v", len(answers), err)
	}
	for i := range pairs {
		x, y := numbers[2*i], numbers[2*i+1]
		for j, want := range []*big.Int{new(big.Int).Mul(x, y), new(big.Int).Add(x, y), new(big.Int).Sub(x, y)} {
			want.Mod(want, wrap)
			var a, b, c int64
			if _, err := fmt.Sscan(answers[4*i+j], &a, &b, &c); err != nil {
				t.Fatal(err)
			}
			got := new(big.Int).Lsh(big.NewInt(c), 48)
			if got.Add(got, new(big.Int).Lsh(big.NewInt(b), 24)).Add(got, big.NewInt(a)); got.Cmp(want) != 0 {
				t.Errorf("operation %d of %v and %v is %v, want %v", j, x, y, got, want)
			}
		}
		if got, want := answers[4*i+3], fmt.Sprint(x.Cmp(y) < 0); got != want {
			t.Errorf("less(%v, %v) is %s", x, y, got)
		}
	}
}
