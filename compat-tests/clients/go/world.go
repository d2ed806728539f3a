package main

// The SDK's side: its clients, and what must be removed in the end.

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nacos-group/nacos-sdk-go/clients"
	"github.com/nacos-group/nacos-sdk-go/clients/naming_client"
	"github.com/nacos-group/nacos-sdk-go/common/constant"
	"github.com/nacos-group/nacos-sdk-go/util"
	"github.com/nacos-group/nacos-sdk-go/vo"
)

const loopback = "127.0.0.1"

type world struct {
	server, runID, folder string
	other                 *other
	sdk                   naming_client.INamingClient
	mutex                 sync.Mutex
	persistent            []instance
}

func newWorld(server string) (*world, error) {
	folder, err := os.MkdirTemp("", "nacos-go-")
	if err != nil {
		return nil, err
	}
	// Leaves the SDK no interface but loopback, so its clientIP is empty and pushes come to the caller's address.
	if err := util.SetFilterNetNumberAndMask("0.0.0.0/0"); err != nil {
		return nil, err
	}
	w := &world{server: server, folder: folder, other: newOther(server)}
	w.runID = fmt.Sprintf("%x%x", os.Getpid(), time.Now().Unix()&0xFFFFFF)
	w.sdk, err = w.client("")
	return w, err
}

// client is a client of one namespace; "" is public.
func (w *world) client(namespace string) (naming_client.INamingClient, error) {
	name, portText, err := net.SplitHostPort(w.server)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, err
	}
	return clients.NewNamingClient(vo.NacosClientParam{
		ServerConfigs: []constant.ServerConfig{*constant.NewServerConfig(name, port)},
		ClientConfig: constant.NewClientConfig(
			constant.WithNamespaceId(namespace),
			constant.WithTimeoutMs(5000),
			constant.WithNotLoadCacheAtStart(true),
			constant.WithUpdateCacheWhenEmpty(true),
			constant.WithLogDir(w.folder),
			constant.WithCacheDir(w.folder),
		),
	})
}

func (w *world) service(check string) string {
	return fmt.Sprintf("clients-go-%s-%s", w.runID, check)
}

func (w *world) register(i instance) error { return w.registerWith(w.sdk, i) }

func (w *world) registerWith(sdk naming_client.INamingClient, i instance) error {
	if i.weight == 0 {
		i.weight = 1
	}
	done, err := sdk.RegisterInstance(vo.RegisterInstanceParam{
		ServiceName: i.service, GroupName: i.group, ClusterName: i.cluster, Ip: i.ip, Port: i.port, Weight: i.weight,
		Enable: true, Healthy: true, Ephemeral: !i.persistent, Metadata: i.metadata,
	})
	if err != nil {
		return err
	}
	if i.persistent {
		w.mutex.Lock()
		w.persistent = append(w.persistent, i)
		w.mutex.Unlock()
	}
	return expect(true, done)
}

// registerPersistent registers a persistent instance whose port answers the server's health checks.
func (w *world) registerPersistent(service string) (instance, error) {
	listener, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		return instance{}, err
	}
	go func() {
		for {
			if connection, err := listener.Accept(); err == nil {
				connection.Close()
			}
		}
	}()
	port := uint64(listener.Addr().(*net.TCPAddr).Port)
	i := instance{service: service, ip: loopback, port: port, persistent: true, metadata: metadata}
	return i, w.register(i)
}

func (w *world) cleanUp() {
	for _, i := range w.persistent {
		if err := w.other.deregister(i); err != nil {
			fmt.Fprintln(os.Stderr, "left behind:", i.line(), err)
		}
	}
}

func (w *world) removeFiles() { _ = os.RemoveAll(w.folder) }
