package store

import (
	"embed"

	"github.com/redis/rueidis"
)

//go:embed lua
var lua embed.FS

// The scripts. All except openScript begin with enter.lua. They use only what Lua 5.1 and its
// successors have in common, and declare all their keys.
var (
	entered     = "local FORMAT = " + format + "\n" + source("enter")
	openScript  = rueidis.NewLuaScript(source("open"))
	timeScript  = rueidis.NewLuaScript(entered + "return leave('')\n")
	claimScript = rueidis.NewLuaScript(entered + source("claim"))
	swapScript  = rueidis.NewLuaScript(entered + source("swap"))
	resetScript = rueidis.NewLuaScript(entered + source("reset"))
	newsScript  = rueidis.NewLuaScript(entered + source("news"))
	notesScript = rueidis.NewLuaScript(entered + source("notes"))
)

func source(name string) string {
	text, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // unreachable: the script is embedded
	}
	return string(text)
}
