package tally

// This file finds what is unsafe over plain HTTP.

// checkPlainHTTP finds sessions and traps on servers that speak plain HTTP.
func checkPlainHTTP(s *survey) (found []Advice) {
	session := s.app.Session != nil
	for _, p := range s.places {
		if p.handler == nil || len(p.server.TLSConnPolicies) > 0 {
			continue
		}
		if session {
			session = false // once is enough
			found = append(found, Advice{Problem: "sessions over plain HTTP can be read and taken over on the way; use HTTPS, here or at a proxy in front"})
		}
		for _, t := range p.handler.Traps {
			if t.Ban != 0 || s.app.Ban != nil {
				found = append(found, Advice{Source: t.Source, Problem: "trap: over plain HTTP browsers don't say that a page of another site leads them into a trap, so it can have its visitors banned",
					Fix: "an https:// site, here or at a proxy in front; or a trap without a ban"})
				break
			}
		}
	}
	return found
}
