'use strict';

/* What nacos-naming must be able to do with the server. Each check has a service of its own, so all run at once. */

const { IP, METADATA } = require('./world');
const { expect, line, wanted, within } = require('./other');
const alive = require('./checks_alive');
const push = require('./checks_push');

async function registerEphemeral(world) {
  const service = world.service('register-ephemeral');
  const instance = { ip: IP, port: 8001, weight: 2.5, metadata: METADATA };
  await world.register({ service, ...instance });
  await within(2, wanted(instance), () => world.other.lines(service));
}

async function registerPersistent(world) {
  const service = world.service('register-persistent');
  const instance = await world.registerPersistent(service);
  await within(2, wanted(instance), () => world.other.lines(service));
}

/** What the SDK lists, asked of the server and not of its cache. */
async function listed(world, service) {
  return (await world.sdk.getAllInstances(service, undefined, '', false)).map(line).sort();
}

/** The SDK has no update, so another client's must be seen by it. */
async function update(world) {
  const service = world.service('update');
  const instance = { ip: IP, port: 8001, weight: 2.5, metadata: METADATA };
  await world.register({ service, ...instance });
  await within(2, wanted(instance), () => listed(world, service));
  const changed = { ip: IP, port: 8001, weight: 3.5, metadata: { zone: 'b', new: 'ö' } };
  await world.other.instance('PUT', { service, ...changed });
  await within(2, wanted(changed), () => listed(world, service));
}

async function list(world) {
  const service = world.service('list');
  const instances = [
    { ip: IP, port: 8001, weight: 2.5, metadata: METADATA },
    { ip: IP, port: 8002, clusterName: 'east' },
    { ip: '127.0.0.2', port: 8001, weight: 0 },
  ];
  for (const instance of instances) await world.other.register({ service, ...instance });
  await within(2, wanted(...instances), () => listed(world, service));
}

async function selectHealthy(world) {
  const service = world.service('select-healthy');
  const well = { ip: IP, port: 8001 };
  const ill = { ip: IP, port: 8002, healthy: false };
  for (const instance of [well, ill]) await world.other.register({ service, ...instance });
  const chosen = async (healthy) =>
    (await world.sdk.selectInstances(service, undefined, '', healthy, false)).map(line).sort();
  await within(2, wanted(well), () => chosen(true));
  await within(2, wanted(ill), () => chosen(false));
}

/** The public client has no call for it; its part that talks to the server has. */
async function services(world) {
  const group = world.service('services');
  const names = ['a', 'b', 'c', 'd', 'e'];
  for (const service of names) await world.register({ service, group, ip: IP, port: 8001 });
  const page = (number, size) => world.sdk._serverProxy.getServiceList(number, size, group);
  for (const [number, size] of [[1, 2], [2, 2], [3, 1]]) {
    const answer = await page(number, 2);
    expect({ page: number, count: 5, size }, { page: number, count: answer.count, size: answer.data.length });
  }
  expect(names, (await page(1, 10)).data.sort());
}

async function ports(sdk, service, group, clusters = '') {
  const instances = await sdk.getAllInstances(service, group, clusters, false);
  return instances.map(({ port }) => port).sort();
}

async function groups(world) {
  const service = world.service('groups');
  await world.register({ service, group: 'red', ip: IP, port: 8001 });
  await world.register({ service, group: 'blue', ip: IP, port: 8002 });
  await within(2, [8001], () => ports(world.sdk, service, 'red'));
  await within(2, [8002], () => ports(world.sdk, service, 'blue'));
  expect([], await ports(world.sdk, service));
}

async function namespaces(world) {
  const service = world.service('namespaces');
  const clients = new Map();
  for (const port of [8001, 8002]) {
    const client = world.client(`clients-${world.runId}-${port}`);
    await client.ready();
    clients.set(port, client);
    await world.register({ service, ip: IP, port }, client);
  }
  for (const [port, client] of clients) await within(2, [port], () => ports(client, service));
  expect([], await ports(world.sdk, service));
}

async function clusters(world) {
  const service = world.service('clusters');
  await world.register({ service, clusterName: 'east', ip: IP, port: 8001 });
  await world.register({ service, clusterName: 'west', ip: IP, port: 8002 });
  const asked = { east: [8001], west: [8002], 'east,west': [8001, 8002], '': [8001, 8002] };
  for (const [names, due] of Object.entries(asked)) {
    await within(2, due, () => ports(world.sdk, service, undefined, names));
  }
}

async function serverStatus(world) {
  expect('UP', await world.sdk.getServerStatus());
}

const CHECKS = {
  'register-ephemeral': registerEphemeral,
  'register-persistent': registerPersistent,
  update,
  list,
  'select-healthy': selectHealthy,
  subscribe: push.subscribe,
  push: push.push,
  'push-large': push.pushLarge,
  services,
  groups,
  namespaces,
  clusters,
  'server-status': serverStatus,
  'keep-alive': alive.keepAlive,
  'comes-back': alive.comesBack,
  'gone-after-kill': alive.goneAfterKill,
  'gone-after-kill-short': alive.goneAfterKillShort,
  deregister: alive.deregister,
};

const SKIPPED = {
  'select-by-weight': 'the SDK has no such call',
  'push-empty': 'the SDK ignores a push without instances',
  detail: 'the SDK has no such call',
};

module.exports = { CHECKS, SKIPPED };
