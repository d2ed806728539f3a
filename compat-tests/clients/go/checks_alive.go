package main

// Beats, and what becomes of an instance without them.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"time"

	"github.com/nacos-group/nacos-sdk-go/vo"
)

// The SDK's first beat leaves right after registering, from another goroutine; after less than this it may still be
// under way and bring back an instance that was deregistered meanwhile.
const firstBeat = time.Second

// keepAlive: 25 s are past both the time-out for beats and its sweep, so only beats can have kept it healthy.
func keepAlive(w *world) error {
	service := w.service("keep-alive")
	lasting, err := w.registerPersistent(service)
	if err != nil {
		return err
	}
	i := instance{service: service, ip: loopback, port: 8001, metadata: map[string]string{"a": "b"}}
	if err := w.register(i); err != nil {
		return err
	}
	if err := w.other.within(2*time.Second, service, lasting, i); err != nil {
		return err
	}
	end := time.Now().Add(25 * time.Second)
	// Registering again would write the SDK's own metadata over this.
	i.metadata = map[string]string{"a": "b", "marked": "by another"}
	if err := w.other.instance(http.MethodPatch, i); err != nil {
		return err
	}
	if err := w.other.within(2*time.Second, service, lasting, i); err != nil {
		return err
	}
	for time.Now().Before(end) {
		if err := w.other.now(service, lasting, i); err != nil {
			return err
		}
		time.Sleep(500 * time.Millisecond)
	}
	return nil
}

// comesBack: an instance that the server has lost returns by the next beats, with all that it had.
func comesBack(w *world) error {
	i := instance{service: w.service("comes-back"), ip: loopback, port: 8001, weight: 2.5, metadata: putMetadata}
	return first(
		func() error { return w.register(i) },
		func() error { return w.other.within(2*time.Second, i.service, i) },
		func() error { return w.other.deregister(i) },
		func() error { return w.other.within(12*time.Second, i.service, i) },
	)
}

func deregister(w *world) error {
	service := w.service("deregister")
	lasting, err := w.registerPersistent(service)
	if err != nil {
		return err
	}
	i := instance{service: service, ip: loopback, port: 8001, metadata: map[string]string{}}
	remove := func(i instance) error {
		done, err := w.sdk.DeregisterInstance(vo.DeregisterInstanceParam{
			ServiceName: service, Ip: i.ip, Port: i.port, Cluster: "DEFAULT", Ephemeral: !i.persistent,
		})
		if err != nil {
			return err
		}
		return expect(true, done)
	}
	err = first(
		func() error { return w.register(i) },
		func() error { return w.other.within(2*time.Second, service, lasting, i) },
		func() error { time.Sleep(firstBeat); return nil },
		func() error { return remove(i) },
		func() error { return w.other.now(service, lasting) },
		func() error { return remove(lasting) },
		func() error { return w.other.now(service) },
	)
	// A beat sent all the same would bring it back.
	for end := time.Now().Add(6 * time.Second); err == nil && time.Now().Before(end); {
		time.Sleep(500 * time.Millisecond)
		err = w.other.now(service)
	}
	return err
}

// killAndWatch kills a process that has registered. It gives when the instance was first seen unhealthy (0: never).
func killAndWatch(w *world, check string, metadata map[string]string, goneFrom, goneUntil time.Duration) (time.Duration, error) {
	service := w.service(check)
	lasting, err := w.registerPersistent(service)
	if err != nil {
		return 0, err
	}
	i := instance{service: service, ip: loopback, port: 8001, metadata: metadata}
	kill, err := startChild(w, i)
	if err != nil {
		return 0, err
	}
	defer kill()
	if err := w.other.within(2*time.Second, service, lasting, i); err != nil {
		return 0, err
	}
	kill()
	killed := time.Now()
	ill := i
	ill.unhealthy = true
	var illAfter time.Duration
	for {
		came, err := w.other.lines(service)
		if err != nil {
			return 0, err
		}
		after := time.Since(killed)
		switch {
		case reflect.DeepEqual(came, wanted(lasting)):
			if after < goneFrom {
				return 0, fmt.Errorf("wanted it to stay for %v, came gone after %v", goneFrom, after)
			}
			return illAfter, nil
		case reflect.DeepEqual(came, wanted(lasting, ill)):
			if illAfter == 0 {
				illAfter = after
			}
		case !reflect.DeepEqual(came, wanted(lasting, i)):
			return 0, fmt.Errorf("wanted %v with or without the killed one, came %v", wanted(lasting), came)
		}
		if after > goneUntil {
			return 0, fmt.Errorf("wanted only %v within %v of the kill, came %v", wanted(lasting), goneUntil, came)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// startChild runs a process that registers an instance and then only beats. What it gives kills it as `kill -9` does.
func startChild(w *world, i instance) (func(), error) {
	text, err := json.Marshal(i.metadata)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	child := exec.Command(program, w.server, "--child", i.service, i.ip, fmt.Sprint(i.port), string(text))
	if _, err := child.StdinPipe(); err != nil { // closes when we end, and with it the child
		return nil, err
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := child.Start(); err != nil {
		return nil, err
	}
	kill := func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		err = expect("registered\n", said)
	}
	if err != nil {
		kill()
		return nil, err
	}
	return kill, nil
}

func goneAfterKill(w *world) error {
	illAfter, err := killAndWatch(w, "gone-after-kill", map[string]string{}, 24*time.Second, 37*time.Second)
	if err == nil && (illAfter < 9*time.Second || illAfter > 22*time.Second) {
		err = fmt.Errorf("wanted unhealthy 15 to 20 s after the last beat, came after %v (0: never)", illAfter)
	}
	return err
}

func goneAfterKillShort(w *world) error {
	timeouts := map[string]string{"preserved.heart.beat.timeout": "3000", "preserved.ip.delete.timeout": "6000"}
	_, err := killAndWatch(w, "gone-after-kill-short", timeouts, 4*time.Second, 13*time.Second)
	return err
}
