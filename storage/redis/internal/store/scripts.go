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
	openScript  = rueidis.NewLuaScript(source("open"))
	timeScript  = rueidis.NewLuaScript(source("enter") + "return leave('')\n")
	claimScript = rueidis.NewLuaScript(source("enter") + source("claim"))
	swapScript  = rueidis.NewLuaScript(source("enter") + source("swap"))
	resetScript = rueidis.NewLuaScript(source("enter") + source("reset"))
	newsScript  = rueidis.NewLuaScript(source("enter") + source("news"))
	notesScript = rueidis.NewLuaScript(source("enter") + source("notes"))
)

func source(name string) string {
	text, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // not reached: it is part of the program
	}
	return string(text)
}
