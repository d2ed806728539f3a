package main

// Subscriptions. Without push the SDK asks again after cacheMillis, 10 s for those who get pushes, 3 s for others. A
// change is made right after a question and must be heard within 2 s, and the SDK must have been told to ask rarely,
// so only a push can have brought it.

import (
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/nacos-group/nacos-sdk-go/model"
	"github.com/nacos-group/nacos-sdk-go/vo"
)

const (
	pushLimit = 2 * time.Second
	// What the SDK is told, in ms.
	rarely = 5000
	// After this no push of a change is due any more; Nacos pushes up to 1 s late.
	quiet = 1500 * time.Millisecond
)

// registerQuietly has another client register, and waits until what the SDK lists can only be an answer, not a push.
func (w *world) registerQuietly(instances ...instance) error {
	for _, i := range instances {
		if err := w.other.register(i); err != nil {
			return err
		}
	}
	time.Sleep(quiet)
	return nil
}

// ear keeps what a subscription heard last: the ports with their metadata.
type ear struct {
	mutex sync.Mutex
	calls int
	last  []string
	param *vo.SubscribeParam
}

func listen(w *world, service string) (*ear, error) {
	e := &ear{}
	e.param = &vo.SubscribeParam{ServiceName: service, SubscribeCallback: e.hear}
	return e, w.sdk.Subscribe(e.param)
}

// listenToOne subscribes to a service with one instance, and wants to be told that pushes will come.
func listenToOne(w *world, service string) (*ear, error) {
	if err := w.other.register(at(service, 8001)); err != nil {
		return nil, err
	}
	e, err := listen(w, service)
	if err != nil {
		return nil, err
	}
	if err := e.hears(pushLimit, "8001 map[]"); err != nil {
		return nil, err
	}
	kept, err := w.sdk.GetService(vo.GetServiceParam{ServiceName: service})
	if err == nil && kept.CacheMillis <= rarely {
		err = fmt.Errorf("wanted an answer that says to be pushed to, came one with cacheMillis %d", kept.CacheMillis)
	}
	return e, err
}

func (e *ear) hear(hosts []model.SubscribeService, _ error) {
	heard := []string{}
	for _, h := range hosts {
		heard = append(heard, fmt.Sprintf("%d %v", h.Port, h.Metadata))
	}
	sort.Strings(heard)
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.calls++
	e.last = heard
}

// hears wants the last thing heard to be so within the limit.
func (e *ear) hears(limit time.Duration, wanted ...string) error {
	return within(limit, append([]string{}, wanted...), func() ([]string, error) {
		e.mutex.Lock()
		defer e.mutex.Unlock()
		return e.last, nil
	})
}

func at(service string, port uint64) instance {
	return instance{service: service, ip: loopback, port: port, metadata: map[string]string{}}
}

// subscribe: the first list is heard, and nothing any more after unsubscribing.
func subscribe(w *world) error {
	service := w.service("subscribe")
	if err := w.registerQuietly(at(service, 8001)); err != nil {
		return err
	}
	e, err := listen(w, service)
	if err != nil {
		return err
	}
	if err := e.hears(pushLimit, "8001 map[]"); err != nil {
		return err
	}
	if err := w.sdk.Unsubscribe(e.param); err != nil {
		return err
	}
	calls := e.calls
	if err := w.other.register(at(service, 8002)); err != nil {
		return err
	}
	time.Sleep(pushLimit)
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return expect(calls, e.calls)
}

func push(w *world) error {
	service := w.service("push")
	two := at(service, 8002)
	e, err := listenToOne(w, service)
	if err != nil {
		return err
	}
	changed := two
	changed.metadata = map[string]string{"a": "b"}
	return first(
		func() error { return w.other.register(two) },
		func() error { return e.hears(pushLimit, "8001 map[]", "8002 map[]") },
		func() error { return w.other.register(changed) },
		func() error { return e.hears(pushLimit, "8001 map[]", "8002 map[a:b]") },
		func() error { return w.other.deregister(two) },
		func() error { return e.hears(pushLimit, "8001 map[]") },
	)
}

func pushEmpty(w *world) error {
	service := w.service("push-empty")
	e, err := listenToOne(w, service)
	if err != nil {
		return err
	}
	return first(
		func() error { return w.other.deregister(at(service, 8001)) },
		func() error { return e.hears(pushLimit) },
	)
}

// pushLarge: 40 instances are far more than the SDK's buffer of 4,024 bytes holds, unless the packet is compressed.
func pushLarge(w *world) error {
	service := w.service("push-large")
	wanted := []string{"8001 map[]"}
	e, err := listenToOne(w, service)
	if err != nil {
		return err
	}
	for port := uint64(8002); port <= 8040; port++ {
		if err := w.other.register(at(service, port)); err != nil {
			return err
		}
		wanted = append(wanted, fmt.Sprintf("%d map[]", port))
	}
	return e.hears(pushLimit, wanted...)
}
