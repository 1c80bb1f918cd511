package store

import (
	"embed"

	"github.com/redis/rueidis"
)

//go:embed lua
var lua embed.FS

// The scripts. All but the first begin with enter.lua. They keep to what Lua 5.1 and its
// successors share, and name all their keys.
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
		panic(err) // not reached: it is part of the program
	}
	return string(text)
}
