package main

// The second client: plain HTTP, no SDK. It makes the changes that the SDK must notice and sees what the SDK did.

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"sort"
	"strconv"
	"time"
)

const requestLimit = 5 * time.Second

// instance is what a check registers or wants to see; zero values are Nacos's defaults.
type instance struct {
	service, group, namespace, ip, cluster string
	port                                   uint64
	weight                                 float64
	metadata                               map[string]string
	persistent, unhealthy                  bool
}

// line is a comparable text of all that a client can set or see of an instance.
func (i instance) line() string {
	if i.cluster == "" {
		i.cluster = "DEFAULT"
	}
	if i.weight == 0 {
		i.weight = 1
	}
	return line(i.ip, i.port, i.cluster, i.weight, !i.unhealthy, true, !i.persistent, i.metadata)
}

func line(ip string, port uint64, cluster string, weight float64, healthy, enabled, ephemeral bool,
	metadata map[string]string) string {
	return fmt.Sprintf("%s:%d %s weight %v healthy %t enabled %t ephemeral %t %v", ip, port, cluster, weight, healthy,
		enabled, ephemeral, metadata)
}

type host struct {
	Ip, ClusterName             string
	Port                        uint64
	Weight                      float64
	Healthy, Enabled, Ephemeral bool
	Metadata                    map[string]string
}

type other struct {
	base   string
	client http.Client
}

func newOther(server string) *other {
	transport := &http.Transport{MaxIdleConnsPerHost: 20} // no proxy, whatever the environment says
	return &other{base: "http://" + server + "/nacos/v1/ns", client: http.Client{Timeout: requestLimit, Transport: transport}}
}

func (o *other) call(method, path string, parameters url.Values) ([]byte, error) {
	request, err := http.NewRequest(method, o.base+path+"?"+parameters.Encode(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := o.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: status %d, %s", method, path, answer.StatusCode, body)
	}
	return body, err
}

func (o *other) waitForServer() error {
	end := time.Now().Add(10 * time.Second)
	for {
		answer, err := o.client.Get(o.base + "/operator/metrics")
		if err == nil {
			answer.Body.Close()
			return nil // it answers; what it answers is the checks' business
		}
		if time.Now().After(end) {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (o *other) instance(method string, i instance) error {
	parameters := url.Values{"serviceName": {i.service}, "ip": {i.ip}, "port": {strconv.FormatUint(i.port, 10)}}
	add := func(name, value string, given bool) {
		if given {
			parameters.Set(name, value)
		}
	}
	add("groupName", i.group, i.group != "")
	add("namespaceId", i.namespace, i.namespace != "")
	add("clusterName", i.cluster, i.cluster != "")
	add("weight", strconv.FormatFloat(i.weight, 'f', -1, 64), i.weight != 0)
	add("healthy", "false", i.unhealthy)
	add("ephemeral", "false", i.persistent)
	if i.metadata != nil {
		text, err := json.Marshal(i.metadata)
		if err != nil {
			return err
		}
		parameters.Set("metadata", string(text))
	}
	_, err := o.call(method, "/instance", parameters)
	return err
}

func (o *other) register(i instance) error   { return o.instance(http.MethodPost, i) }
func (o *other) deregister(i instance) error { return o.instance(http.MethodDelete, i) }

// lines gives the instances of a service in the default group and namespace, sorted.
func (o *other) lines(service string) ([]string, error) {
	body, err := o.call(http.MethodGet, "/instance/list", url.Values{"serviceName": {service}})
	if err != nil {
		return nil, err
	}
	var answer struct{ Hosts []host }
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("wanted a list, came %s: %w", body, err)
	}
	lines := []string{}
	for _, h := range answer.Hosts {
		lines = append(lines, line(h.Ip, h.Port, h.ClusterName, h.Weight, h.Healthy, h.Enabled, h.Ephemeral, h.Metadata))
	}
	sort.Strings(lines)
	return lines, nil
}

// wanted gives the lines of instances, sorted as lines() does.
func wanted(instances ...instance) []string {
	lines := []string{}
	for _, i := range instances {
		lines = append(lines, i.line())
	}
	sort.Strings(lines)
	return lines
}

func expect(wanted, came any) error {
	if !reflect.DeepEqual(wanted, came) {
		return fmt.Errorf("wanted %v, came %v", wanted, came)
	}
	return nil
}

// within looks ten times a second until it sees what is wanted; past the limit that is a fault.
func within[T any](limit time.Duration, wanted T, look func() (T, error)) error {
	end := time.Now().Add(limit)
	for {
		came, err := look()
		if err == nil && reflect.DeepEqual(wanted, came) {
			return nil
		}
		if time.Now().After(end) {
			if err != nil {
				return fmt.Errorf("wanted %v within %v, came %w", wanted, limit, err)
			}
			return fmt.Errorf("wanted %v within %v, came %v", wanted, limit, came)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (o *other) within(limit time.Duration, service string, instances ...instance) error {
	return within(limit, wanted(instances...), func() ([]string, error) { return o.lines(service) })
}

// now wants the list to be so at once.
func (o *other) now(service string, instances ...instance) error {
	came, err := o.lines(service)
	if err != nil {
		return err
	}
	return expect(wanted(instances...), came)
}
