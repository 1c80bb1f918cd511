package collation

import (
	"bufio"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
)

var update = flag.Bool("collation.update", false, "write equals.txt, by what a MariaDB says")

// collations are those that Keys has to follow, newest first.
var collations = []string{"utf8mb4_uca1400_ai_ci", "utf8mb4_unicode_520_ci", "utf8mb4_unicode_ci", "utf8mb4_general_ci"}

const most = 1 << 10

// query returns the rows of a query.
func query(t *testing.T, s *testserver.Server, sql string, row func([]string)) {
	t.Helper()
	client := exec.Command("mariadb", "--no-defaults", "-h127.0.0.1", "-P"+s.Port, "-u"+testserver.User, "-p"+testserver.Password, "-Dtally", "--default-character-set=utf8mb4", "-NBq")
	client.Stdin, client.Stderr = strings.NewReader(sql), os.Stderr
	out, err := client.StdoutPipe()
	if err == nil {
		err = client.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for scanner := bufio.NewScanner(out); scanner.Scan(); {
		row(strings.Split(scanner.Text(), "\t"))
	}
	if err := client.Wait(); err != nil {
		t.Fatal(err)
	}
}

func mariaDB(t *testing.T) *testserver.Server {
	t.Helper()
	s, err := testserver.MariaDB()
	if errors.Is(err, testserver.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// weights are the weights of all code points in a collation, in hex: two texts are equal if theirs are. That of a text is
// those of its characters one after the other.
type weights [unicode.MaxRune + 1]string

func allWeights(t *testing.T) (all []*weights) {
	s := mariaDB(t)
	columns := ""
	for _, name := range collations {
		all, columns = append(all, new(weights)), columns+", hex(weight_string(c collate "+name+"))"
	}
	n := 0
	query(t, s, "SELECT seq"+columns+" FROM (SELECT seq, CONVERT(CHAR(seq USING utf32) USING utf8mb4) c FROM seq_0_to_1114111 WHERE NOT seq BETWEEN 0xd800 AND 0xdfff) t", func(row []string) {
		c, err := strconv.Atoi(row[0])
		if err != nil {
			t.Fatal(err)
		}
		n++
		for i := range all {
			all[i][c] = row[i+1]
		}
	})
	if want := int(unicode.MaxRune) + 1 - 0x800; n != want {
		t.Fatalf("MariaDB tells of %d code points, want %d", n, want)
	}
	return all
}

func points(yield func(rune) bool) {
	for c := rune(0); c <= unicode.MaxRune && (c >= 0xd800 && c <= 0xdfff || yield(c)); c++ {
	}
}

// between returns the keys of a character between two letters, without these.
func between(c rune) (keys []string) {
	for _, key := range Keys("x"+string(c)+"x", most) {
		keys = append(keys, key[1:len(key)-1])
	}
	return keys
}

// equalTexts returns texts for what characters weigh: of all characters that weigh the same, or the same as several
// others, it is the same. ASCII comes first.
func (w *weights) equalTexts() func(c rune) (string, bool) {
	single := make(map[string]rune)
	for _, plain := range []bool{true, false} { // some marks weigh like letters, and some characters decompose to others
		points(func(c rune) bool {
			if _, ok := single[w[c]]; !ok && len(w[c]) == 4 && (!plain || norm.NFKD.String(string(c)) == string(c)) && !unicode.In(c, unicode.Mn, unicode.Me) {
				single[w[c]] = c
			}
			return true
		})
	}
	return func(c rune) (string, bool) {
		var text []rune
		for rest := w[c]; rest != ""; rest = rest[4:] {
			if len(rest) < 4 {
				return "", false
			}
			c, ok := single[rest[:4]]
			if !ok {
				return "", false
			}
			text = append(text, c)
		}
		return string(text), true
	}
}

// isDecided reports whether a collation's weight of a character is its own: not that of all those that it doesn't know,
// and not one that newer ones dispute. Keys has further keys for these.
func isDecided(collation string, c rune) bool {
	old := collation == "utf8mb4_unicode_ci" || collation == "utf8mb4_general_ci"
	return c >= 0x80 && !(old && c > maxBMP) && !(collation == "utf8mb4_general_ci" && c == sharpS)
}

// disputed are characters that collations find equal to different others, of Arabic and of old scripts: one mark and
// disputed. Their keys are those of the newest collation.
var disputed = []rune{0x345, 0x675, 0x676, 0x677, 0x678, 0xfbdd, 0x1de3, 0x2df9}

// Writes the table, if that is asked for. Otherwise it is small enough, and has no line that isn't read.
func TestTableOfEquals(t *testing.T) {
	if *update {
		all := allWeights(t)
		table := equals()
		clear(table)
		table['·'] = "" // behind an l
		for range 8 {   // a change can change others
			for i, w := range all {
				equal := w.equalTexts()
				points(func(c rune) bool {
					if text, ok := equal(c); ok && isDecided(collations[i], c) && (i == 0 || !slices.Contains(disputed, c)) {
						// ASCII is itself. A character that is the first of its weight is, too, and others may be above it.
						want := fold("x"+text+"x", most, -1, -1)
						want = want[1 : len(want)-1]
						if between(c)[0] != want && c != '·' && c != 0x387 {
							table[c] = want
						}
					}
					return true
				})
			}
		}
		points(func(c rune) bool { // those that are newer than the collations
			if !unicode.Is(unicode.Nd, c) || strings.Trim(between(c)[0], "0123456789") == "" {
				return true
			}
			zero := c
			for unicode.Is(unicode.Nd, zero-1) {
				zero--
			}
			table[c] = strconv.Itoa(int(c-zero) % 10)
			return true
		})
		for _, c := range slices.Sorted(maps.Keys(table)) { // those that follow from others
			to, key := table[c], between(c)[0]
			if delete(table, c); between(c)[0] != key {
				table[c] = to
			}
		}
		write(t, table)
	}
	if n := len(readTable(t)); n > 20<<10 {
		t.Errorf("the table has %d bytes, want at most 20 KiB", n)
	}
	lines := strings.Split(strings.TrimSuffix(readTable(t), "\n"), "\n")
	for i, line := range lines {
		if to, points, _ := strings.Cut(line, "\t"); points == "" || i > 0 && line <= lines[i-1] || strings.ToLower(to) != to {
			t.Errorf("the line %q has no code points, or isn't in order", line)
		}
	}
}

func readTable(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("equals.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, table map[rune]string) {
	t.Helper()
	byTarget := make(map[string][]rune)
	for c, to := range table {
		byTarget[to] = append(byTarget[to], c)
	}
	var out strings.Builder
	for _, to := range slices.Sorted(maps.Keys(byTarget)) {
		list := byTarget[to]
		slices.SortFunc(list, cmp.Compare)
		out.WriteString(to + "\t")
		for i := 0; i < len(list); i++ {
			first := list[i]
			for i+1 < len(list) && list[i+1] == list[i]+1 {
				i++
			}
			fmt.Fprintf(&out, "%x", first)
			if list[i] > first {
				fmt.Fprintf(&out, "-%x", list[i])
			}
			if i+1 < len(list) {
				out.WriteByte(' ')
			}
		}
		out.WriteByte('\n')
	}
	if err := os.WriteFile("equals.txt", []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Each character that a collation of a real MariaDB ignores, or finds equal to others, such as letters and digits of
// ASCII, has a key in common with them.
func TestCharactersThatMariaDBFindsEqualShareAKey(t *testing.T) {
	if testing.Short() {
		t.Skip("asks a database about all characters, on one goroutine")
	}
	all := allWeights(t)
	share, part := characters()
	for i, w := range all {
		equal := w.equalTexts()
		compared, ignored, ascii, failed := 0, 0, 0, 0
		points(func(c rune) bool {
			text, ok := equal(c)
			if !ok || c < 0x80 || c%share != part || slices.Contains(disputed, c) {
				return true
			}
			compared++
			if text == "" {
				ignored++
			} else if text[0] < 0x80 {
				ascii++
			}
			if want := Keys("x"+text+"x", most); !slices.ContainsFunc(Keys("x"+string(c)+"x", most), func(key string) bool { return slices.Contains(want, key) }) {
				if failed++; failed < 20 {
					t.Errorf("%s finds %U equal to %q, and its keys are %q, not %q", collations[i], c, text, between(c), want)
				}
			}
			return true
		})
		t.Logf("%s: %d characters compared, %d ignored, %d with ASCII, %d failed", collations[i], compared, ignored, ascii, failed)
		if n := least(share); compared < 10_000/n || ascii < 400/n || ignored < 400/n && collations[i] != "utf8mb4_general_ci" {
			t.Errorf("%s: %d characters were compared, %d ignored, %d equal to ASCII: expected more", collations[i], compared, ignored, ascii)
		}
	}
}

// characters returns the share of the characters and scripts that a test looks at, as a divisor, and which part that
// is: a random one, or with PROOF all.
func characters() (share, part rune) {
	if proof.IsOn() {
		return 1, 0
	}
	return 24, rand.Int32N(24)
}

// least returns the divisor of the number that a test must find in a share. It is larger than the share, because parts differ.
func least(share rune) int { return int(2*share - 1) }

// Texts in ASCII that a real MariaDB tells apart have different keys, and those that it finds equal share one. So do
// texts with characters of all kinds that it finds equal.
func TestTextsHaveTheKeysThatMariaDBComparesBy(t *testing.T) {
	if testing.Short() {
		t.Skip("asks a database about all characters, on one goroutine")
	}
	s := mariaDB(t)
	texts := []string{"ab@x", "a.b@x", "a-b@x", "a_b@x", "a+b@x", "a'b@x", "a b@x", "A.B@X", "ab@x ", "ab@x  ", "abx", "ab@y", "ab\"@x", "ab%@x", "a/b@x", "a\\b@x", "a`b@x", "a~b@x", "a^b@x", "a$b@x"}
	lists := map[string][]string{"ASCII": texts, "any": {
		"victim", "VICTIM", "víctim", "vict\u0131m", "vict\u0130m", "vi\u20ddctim", "victim\u20dd\u20dd\u20dd", "\u1d20ictim", "ⓥictim", "victim\u0488", "vi\u200bctim", "v\u0365ctim",
		"strasse", "straße", "stra\u1e9ee", "strase", "stra\U0001f600e", "stra\U0001f601e", "Ångström", "angstrom", "angstrøm", "łódź", "lodz", "đorđe", "dorde", "ðorðe",
		"caesar", "cæsar", "oeuvre", "œuvre", "σ", "ς", "Σ", "user1", "user\u0661", "user\u0967", "user①", "user\U0001d7ce", "user0", "user\u278a", "user10", "user⑩",
		"michael", "mich\u00e6l", "michael\u00b7", "micha\u0387el", "\U0001d42f\U0001d422\U0001d41ctim", "rocket\U0001f680", "rocket\U0001f37a", "rocket\ufffd", "rocket", "か", "が", "カ", "ｶ", "ヵ", "ゕ",
	}}
	for name, list := range lists {
		var values []string
		for _, text := range list {
			values = append(values, fmt.Sprintf("(%d, x'%x')", len(values), text))
		}
		same := make(map[[2]int]bool)
		for _, collation := range collations {
			sql := fmt.Sprintf("CREATE OR REPLACE TABLE a (n int, t varchar(99) CHARACTER SET utf8mb4 COLLATE %s); INSERT INTO a VALUES %s; SELECT a.n, b.n FROM a, a b WHERE a.t = b.t AND a.n < b.n", collation, strings.Join(values, ","))
			found := 0
			query(t, s, sql, func(row []string) {
				x, _ := strconv.Atoi(row[0])
				y, _ := strconv.Atoi(row[1])
				found++
				same[[2]int{x, y}] = true
				if keys := Keys(list[x], most); !slices.ContainsFunc(Keys(list[y], most), func(key string) bool { return slices.Contains(keys, key) }) {
					t.Errorf("%s finds %+q and %+q equal, and their keys are %+q and %+q", collation, list[x], list[y], keys, Keys(list[y], most))
				}
			})
			if found == 0 {
				t.Errorf("%s finds no two of %s equal", collation, name)
			}
		}
		for x := range list {
			for y := x + 1; y < len(list) && name == "ASCII"; y++ {
				if a, b := Keys(list[x], most), Keys(list[y], most); !same[[2]int{x, y}] && slices.Equal(a, b) {
					t.Errorf("%q and %q are two accounts with one key, %q", list[x], list[y], a)
				}
			}
		}
	}
}

// Texts of up to three characters of a script that a real MariaDB finds equal share a key: some collations compare
// characters in another order than they are written, such as vowels of Thai before their consonants.
func TestTextsOfEachScriptHaveTheKeysThatMariaDBComparesBy(t *testing.T) {
	if testing.Short() {
		t.Skip("asks a database about all characters, on one goroutine")
	}
	s := mariaDB(t)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	var texts, values []string
	share, part := characters()
	for n, name := range slices.Sorted(maps.Keys(unicode.Scripts)) {
		if rune(n)%share != part {
			continue
		}
		var all []rune
		points(func(c rune) bool {
			if unicode.Is(unicode.Scripts[name], c) && unicode.IsGraphic(c) && !slices.Contains(disputed, c) {
				all = append(all, c)
			}
			return true
		})
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		few := append(all[:min(4, len(all)):min(4, len(all))], '\u200b')
		for _, c := range all { // and a vowel that is written before its consonant
			if unicode.Is(unicode.Logical_Order_Exception, c) {
				few = append(few, c)
				break
			}
		}
		words := []string{""}
		for range 3 {
			for _, word := range words[:len(words):len(words)] {
				for _, c := range few {
					words = append(words, word+string(c))
				}
			}
		}
		slices.Sort(words)
		texts = append(texts, slices.Compact(words)...)
	}
	for i, text := range texts {
		values = append(values, fmt.Sprintf("(%d, x'%x')", i, text))
	}
	for _, collation := range collations {
		first, found := make(map[string]string), 0
		sql := fmt.Sprintf("CREATE OR REPLACE TABLE w (n int, t varchar(9) CHARACTER SET utf8mb4 COLLATE %s); INSERT INTO w VALUES %s; SELECT n, hex(weight_string(t)) FROM w ORDER BY n", collation, strings.Join(values, ","))
		query(t, s, sql, func(row []string) {
			n, _ := strconv.Atoi(row[0])
			other, isKnown := first[row[1]]
			if !isKnown {
				first[row[1]] = texts[n]
				return
			}
			found++
			if keys := Keys(other, most); !slices.ContainsFunc(Keys(texts[n], most), func(key string) bool { return slices.Contains(keys, key) }) {
				t.Errorf("seed %d: %s finds %+q and %+q equal, and their keys are %+q and %+q", seed, collation, texts[n], other, Keys(texts[n], most), keys)
			}
		})
		if found < 1000/least(share) {
			t.Errorf("%s finds %d of %d texts equal to others, expected more", collation, found, len(texts))
		}
	}
}
