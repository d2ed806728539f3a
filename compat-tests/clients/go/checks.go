package main

// What nacos-sdk-go must be able to do with the server. Each check has a service of its own, so all run at once.

import (
	"fmt"
	"sort"
	"time"

	"github.com/nacos-group/nacos-sdk-go/clients/naming_client"
	"github.com/nacos-group/nacos-sdk-go/model"
	"github.com/nacos-group/nacos-sdk-go/vo"
)

var checks = []check{
	{"register-ephemeral", registerEphemeral},
	{"register-persistent", registerPersistent},
	{"update", update},
	{"list", list},
	{"select-healthy", selectHealthy},
	{"select-by-weight", selectByWeight},
	{"subscribe", subscribe},
	{"push", push},
	{"push-empty", pushEmpty},
	{"push-large", pushLarge},
	{"services", services},
	{"groups", groups},
	{"namespaces", namespaces},
	{"clusters", clusters},
	{"keep-alive", keepAlive},
	{"comes-back", comesBack},
	{"gone-after-kill", goneAfterKill},
	{"gone-after-kill-short", goneAfterKillShort},
	{"deregister", deregister},
}

var skipped = [][2]string{
	{"server-status", "the SDK has no such call"},
	{"detail", "the SDK has no such call"},
}

var (
	metadata = map[string]string{"zone": "a b", "note": "ü=1&2+3%", "empty": ""}
	// The SDK doesn't percent-encode what it PUTs (updates and beats), so "+" and "%" can't arrive.
	putMetadata = map[string]string{"zone": "a b", "note": "ü=1&2", "empty": ""}
)

// first gives the first error of steps that all have to succeed; later ones aren't run.
func first(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func registerEphemeral(w *world) error {
	i := instance{service: w.service("register-ephemeral"), ip: loopback, port: 8001, weight: 2.5, metadata: metadata}
	if err := w.register(i); err != nil {
		return err
	}
	return w.other.within(2*time.Second, i.service, i)
}

func registerPersistent(w *world) error {
	i, err := w.registerPersistent(w.service("register-persistent"))
	if err != nil {
		return err
	}
	return w.other.within(2*time.Second, i.service, i)
}

func update(w *world) error {
	i := instance{service: w.service("update"), ip: loopback, port: 8001, weight: 2.5, metadata: putMetadata}
	if err := w.register(i); err != nil {
		return err
	}
	i.weight, i.metadata = 3.5, map[string]string{"zone": "b", "new": "ö"}
	done, err := w.sdk.UpdateInstance(vo.UpdateInstanceParam{
		ServiceName: i.service, Ip: i.ip, Port: i.port, ClusterName: "DEFAULT", Ephemeral: true, Enable: true,
		Weight: i.weight, Metadata: i.metadata,
	})
	if err != nil || !done {
		return fmt.Errorf("wanted the update to be taken, came %t %w", done, err)
	}
	return w.other.within(2*time.Second, i.service, i)
}

func list(w *world) error {
	service := w.service("list")
	instances := []instance{
		{service: service, ip: loopback, port: 8001, weight: 2.5, metadata: metadata},
		{service: service, ip: loopback, port: 8002, cluster: "east", metadata: map[string]string{}},
		{service: service, ip: "127.0.0.2", port: 8001, metadata: map[string]string{}},
	}
	if err := w.registerQuietly(instances...); err != nil {
		return err
	}
	return within(0, wanted(instances...), func() ([]string, error) {
		return seen(w.sdk.SelectAllInstances(vo.SelectAllInstancesParam{ServiceName: service}))
	})
}

// seen turns what the SDK gives into comparable lines.
func seen(instances []model.Instance, err error) ([]string, error) {
	lines := []string{}
	for _, i := range instances {
		lines = append(lines, line(i.Ip, i.Port, i.ClusterName, i.Weight, i.Healthy, i.Enable, i.Ephemeral, i.Metadata))
	}
	sort.Strings(lines)
	return lines, err
}

func selectHealthy(w *world) error {
	service := w.service("select-healthy")
	well := instance{service: service, ip: loopback, port: 8001, metadata: map[string]string{}}
	ill := instance{service: service, ip: loopback, port: 8002, unhealthy: true, metadata: map[string]string{}}
	chosen := func(healthy bool) func() ([]string, error) {
		return func() ([]string, error) {
			return seen(w.sdk.SelectInstances(vo.SelectInstancesParam{ServiceName: service, HealthyOnly: healthy}))
		}
	}
	return first(
		func() error { return w.registerQuietly(well, ill) },
		func() error { return within(0, wanted(well), chosen(true)) },
		func() error { return within(0, wanted(ill), chosen(false)) },
	)
}

// selectByWeight draws 400 times from weights 1 and 9: 360 are due for the heavy one, six sigma are 36.
func selectByWeight(w *world) error {
	service := w.service("select-by-weight")
	light := instance{service: service, ip: loopback, port: 8001, weight: 1}
	if err := w.registerQuietly(light, instance{service: service, ip: loopback, port: 8002, weight: 9}); err != nil {
		return err
	}
	heavy := 0
	for range make([]struct{}, 400) {
		one, err := w.sdk.SelectOneHealthyInstance(vo.SelectOneHealthInstanceParam{ServiceName: service})
		if err != nil {
			return err
		}
		if one.Port == 8002 {
			heavy++
		}
	}
	if heavy < 324 || heavy > 396 {
		return fmt.Errorf("wanted 360±36 of 400 draws for the instance of weight 9 beside one of weight 1, came %d", heavy)
	}
	return nil
}

func services(w *world) error {
	group := w.service("services")
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if err := w.register(instance{service: name, group: group, ip: loopback, port: 8001}); err != nil {
			return err
		}
	}
	for _, page := range []struct {
		number uint32
		size   int
	}{{1, 2}, {2, 2}, {3, 1}} {
		answer, err := w.sdk.GetAllServicesInfo(vo.GetAllServiceInfoParam{GroupName: group, PageNo: page.number, PageSize: 2})
		if err != nil {
			return err
		}
		if answer.Count != 5 || len(answer.Doms) != page.size {
			return fmt.Errorf("wanted %d of 5 services on page %d, came %v of %d", page.size, page.number, answer.Doms, answer.Count)
		}
	}
	all, err := w.sdk.GetAllServicesInfo(vo.GetAllServiceInfoParam{GroupName: group, PageNo: 1, PageSize: 10})
	if err != nil {
		return err
	}
	sort.Strings(all.Doms)
	return expect([]string{"a", "b", "c", "d", "e"}, all.Doms)
}

// ports wants a list of these ports from the SDK, first asked for here: later lists of a key come from its cache.
func ports(sdk naming_client.INamingClient, param vo.SelectAllInstancesParam, wanted ...uint64) error {
	return within(2*time.Second, append([]uint64{}, wanted...), func() ([]uint64, error) {
		instances, err := sdk.SelectAllInstances(param)
		came := []uint64{}
		for _, i := range instances {
			came = append(came, i.Port)
		}
		sort.Slice(came, func(a, b int) bool { return came[a] < came[b] })
		return came, err
	})
}

func groups(w *world) error {
	service := w.service("groups")
	return first(
		func() error { return w.register(instance{service: service, group: "red", ip: loopback, port: 8001}) },
		func() error { return w.register(instance{service: service, group: "blue", ip: loopback, port: 8002}) },
		func() error {
			return ports(w.sdk, vo.SelectAllInstancesParam{ServiceName: service, GroupName: "red"}, 8001)
		},
		func() error {
			return ports(w.sdk, vo.SelectAllInstancesParam{ServiceName: service, GroupName: "blue"}, 8002)
		},
		func() error { return ports(w.sdk, vo.SelectAllInstancesParam{ServiceName: service}) },
	)
}

func namespaces(w *world) error {
	service := w.service("namespaces")
	sdks := map[uint64]naming_client.INamingClient{}
	for _, port := range []uint64{8001, 8002} {
		sdk, err := w.client(fmt.Sprintf("clients-%s-%d", w.runID, port))
		if err != nil {
			return err
		}
		sdks[port] = sdk
		if err := w.registerWith(sdk, instance{service: service, ip: loopback, port: port}); err != nil {
			return err
		}
	}
	for port, sdk := range sdks {
		if err := ports(sdk, vo.SelectAllInstancesParam{ServiceName: service}, port); err != nil {
			return err
		}
	}
	return ports(w.sdk, vo.SelectAllInstancesParam{ServiceName: service})
}

func clusters(w *world) error {
	service := w.service("clusters")
	of := func(clusters ...string) vo.SelectAllInstancesParam {
		return vo.SelectAllInstancesParam{ServiceName: service, Clusters: clusters}
	}
	return first(
		func() error { return w.register(instance{service: service, cluster: "east", ip: loopback, port: 8001}) },
		func() error { return w.register(instance{service: service, cluster: "west", ip: loopback, port: 8002}) },
		func() error { return ports(w.sdk, of("east"), 8001) },
		func() error { return ports(w.sdk, of("west"), 8002) },
		func() error { return ports(w.sdk, of("east", "west"), 8001, 8002) },
		func() error { return ports(w.sdk, of(), 8001, 8002) },
	)
}
