package lint

import (
	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/siting"
)

// checkMatchers finds handlers whose own matchers miss spellings, so that their zones never see them.
func checkMatchers(s *config.Survey) (found []advice.Advice) {
	for _, p := range s.Places {
		for _, own := range p.Own {
			if problem, words := matcher.Safer("match", own.Matchers()); words != "" && len(p.Zones) > 0 {
				found = append(found, p.Handler.Advice("the directive's own matcher: "+problem,
					words+" in its zones, and no matcher behind rate_limit"))
			}
		}
	}
	return found
}

// checkServed finds files of the rate limiter in folders that file servers serve.
func checkServed(s *config.Survey) (found []advice.Advice) {
	if len(limited(s)) == 0 {
		return nil
	}
	settings, seen := s.Run.Settings, make(map[string]bool)
	files := []string{settings.Path, settings.Secret, s.Run.Rules.Path()}
	if s.App.APIKeys != nil {
		files = append(files, s.App.APIKeys.File)
	}
	for _, view := range s.Views {
		for _, folder := range view.ServedFolders() {
			for _, path := range files {
				if path == "" || seen[folder+path] || !siting.Contains(folder, path) {
					continue
				}
				seen[folder+path] = true
				found = append(found, advice.Advice{Problem: "a file of the rate limiter lies in a folder that a site serves, where everybody can get it; keep it elsewhere", Path: path, Root: folder})
			}
		}
	}
	return found
}
