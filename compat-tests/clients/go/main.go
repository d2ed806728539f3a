// Command suite runs the checks of nacos-sdk-go 1.1.6 against a server, all at once, and prints a line for each.
//
// Place: started by ../run and ../prove. checks_*.go hold the checks, world.go the SDK's side, other.go the client
// that they are measured with.
//
//	suite HOST:PORT [--only NAME,NAME]
//	suite --names
//	suite HOST:PORT --child SERVICE IP PORT METADATA   (what the killed-client checks kill)
//
// Exit code: 0 every check passed, 1 one failed, 2 the suite couldn't run.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// One check that hangs must not hide the others.
const checkLimit = 60 * time.Second

type check struct {
	name string
	run  func(*world) error
}

var printing sync.Mutex

func say(format string, values ...any) {
	printing.Lock()
	defer printing.Unlock()
	fmt.Printf(format+"\n", values...)
}

func main() {
	os.Exit(suite(os.Args[1:]))
}

func cannotRun(why any) int {
	fmt.Fprintln(os.Stderr, "couldn't run:", why)
	return 2
}

func suite(args []string) int {
	if len(args) == 1 && args[0] == "--names" {
		for _, c := range checks {
			say("%s", c.name)
		}
		return 0
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "--") {
		return cannotRun("HOST:PORT is missing")
	}
	world, err := newWorld(args[0])
	if err != nil {
		return cannotRun(err)
	}
	defer world.removeFiles()
	switch {
	case len(args) == 1:
		return runAll(world, checks, skipped)
	case len(args) == 3 && args[1] == "--only":
		chosen, err := choose(args[2])
		if err != nil {
			return cannotRun(err)
		}
		return runAll(world, chosen, nil)
	case len(args) == 6 && args[1] == "--child":
		return child(world, args[2:])
	}
	return cannotRun(fmt.Sprintf("unknown arguments %v", args[1:]))
}

func choose(names string) ([]check, error) {
	var chosen []check
	for _, name := range strings.Split(names, ",") {
		found := false
		for _, c := range checks {
			if c.name == name {
				chosen, found = append(chosen, c), true
			}
		}
		if !found {
			return nil, fmt.Errorf("no check is called %q", name)
		}
	}
	return chosen, nil
}

func runAll(world *world, chosen []check, skipped [][2]string) int {
	if err := world.other.waitForServer(); err != nil {
		return cannotRun(err)
	}
	for _, skip := range skipped {
		say("skip %s: %s", skip[0], skip[1])
	}
	passed := make(chan bool, len(chosen))
	for _, c := range chosen {
		go func(c check) { passed <- runOne(world, c) }(c)
	}
	code := 0
	for range chosen {
		if !<-passed {
			code = 1
		}
	}
	world.cleanUp()
	return code
}

func runOne(world *world, c check) bool {
	ended := make(chan error, 1)
	go func() {
		defer func() {
			if fault := recover(); fault != nil {
				ended <- fmt.Errorf("wanted no panic, came %v", fault)
			}
		}()
		ended <- c.run(world)
	}()
	var err error
	select {
	case err = <-ended:
	case <-time.After(checkLimit):
		err = fmt.Errorf("wanted an end within %v, it still runs", checkLimit)
	}
	if err != nil {
		say("FAIL %s: %v", c.name, err)
		return false
	}
	say("ok %s", c.name)
	return true
}

func child(world *world, args []string) int {
	port, err := strconv.ParseUint(args[2], 10, 16)
	if err != nil {
		return cannotRun(err)
	}
	metadata := map[string]string{}
	if err := json.Unmarshal([]byte(args[3]), &metadata); err != nil {
		return cannotRun(err)
	}
	if err := world.register(instance{service: args[0], ip: args[1], port: port, metadata: metadata}); err != nil {
		return cannotRun(err)
	}
	say("registered")
	_, _ = io.Copy(io.Discard, os.Stdin) // until killed, or until the parent has gone
	return 0
}
