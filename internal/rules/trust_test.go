package rules

import "testing"

func TestListsFromElsewhereMayNotAllowNorBanTheInternet(t *testing.T) {
	for line, want := range map[string][4]bool{ // accepted with no flag, with Allow, with Wide, with both
		"ban 192.0.2.1":            {true, true, true, true},
		"ban 10.0.0.0/8":           {true, true, true, true},
		"ban 10.0.0.0/7":           {false, false, true, true},
		"ban 0.0.0.0/0":            {false, false, true, true},
		"ban ::ffff:0.0.0.0/96":    {false, false, true, true},
		"ban 2000::/19":            {true, true, true, true},
		"ban 2000::/18":            {false, false, true, true},
		"ban ::/0":                 {false, false, true, true},
		"ban key:0.0.0.0/0":        {true, true, true, true},
		"allow 192.0.2.1":          {false, true, false, true},
		"allow api-key:acme":       {false, true, false, true},
		"allow 0.0.0.0/0 # theirs": {false, false, false, true},
	} {
		s, err := ParseRule(line)
		if err != nil {
			t.Fatal(err)
		}
		for i, trust := range []Trust{{}, {Allow: true}, {Wide: true}, {Allow: true, Wide: true}} {
			if err := trust.Check(s); (err == nil) != want[i] {
				t.Errorf("%s with %+v: %v", line, trust, err)
			}
		}
	}
}
