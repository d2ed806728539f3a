'use strict';

/*
 * Subscriptions. The SDK asks again 1 s after subscribing and then every cacheMillis, 10 s for those who get pushes,
 * 3 s for others. A change is made after the second question and must be heard within 2 s, and the SDK must have been
 * told to ask rarely, so only a push can have brought it.
 */

const { IP } = require('./world');
const { Wrong, expect, sleep, within } = require('./other');

const PUSH_LIMIT_S = 2;
// The second question is due 1 s after subscribing; twice that on a busy machine.
const SECOND_QUESTION_MS = 2000;
const RARELY_MS = 5000;
// After this no push is due any more (Nacos pushes up to 1 s late), so the first list can only be an answer.
const QUIET_MS = 1500;

/** What a subscription heard: the ports with their metadata, the last call at the end. */
function ear() {
  const heard = [];
  const told = {};
  const hear = (hosts, service) => {
    heard.push(hosts.map(({ port, metadata }) => `${port} ${JSON.stringify(metadata)}`).sort());
    told.cacheMillis = service.cacheMillis;
  };
  return { heard, told, hear, last: () => heard[heard.length - 1] || [] };
}

/** The first list is heard, and nothing any more after unsubscribing. */
async function subscribe(world) {
  const service = world.service('subscribe');
  await world.other.register({ service, ip: IP, port: 8001 });
  await sleep(QUIET_MS);
  const { heard, hear, last } = ear();
  world.sdk.subscribe({ serviceName: service }, hear);
  await within(PUSH_LIMIT_S, ['8001 {}'], last);
  world.sdk.unSubscribe({ serviceName: service }, hear);
  const calls = heard.length;
  await world.other.register({ service, ip: IP, port: 8002 });
  await sleep(PUSH_LIMIT_S * 1000);
  expect(calls, heard.length);
}

/** Subscribes to a service with one instance and waits for the second question. */
async function listen(world, service) {
  await world.other.register({ service, ip: IP, port: 8001 });
  const { told, hear, last } = ear();
  world.sdk.subscribe({ serviceName: service }, hear);
  await within(PUSH_LIMIT_S, ['8001 {}'], last);
  await sleep(SECOND_QUESTION_MS);
  if (!(told.cacheMillis > RARELY_MS)) {
    throw new Wrong('an answer that says to be pushed to', `one with cacheMillis ${told.cacheMillis}`);
  }
  return last;
}

async function push(world) {
  const service = world.service('push');
  const last = await listen(world, service);
  const two = { service, ip: IP, port: 8002 };
  await world.other.register(two);
  await within(PUSH_LIMIT_S, ['8001 {}', '8002 {}'], last);
  await world.other.register({ ...two, metadata: { a: 'b' } });
  await within(PUSH_LIMIT_S, ['8001 {}', '8002 {"a":"b"}'], last);
  await world.other.deregister(two);
  await within(PUSH_LIMIT_S, ['8001 {}'], last);
}

/** 40 instances are pushed compressed. */
async function pushLarge(world) {
  const service = world.service('push-large');
  const last = await listen(world, service);
  const due = ['8001 {}'];
  for (let port = 8002; port <= 8040; port++) {
    await world.other.register({ service, ip: IP, port });
    due.push(`${port} {}`);
  }
  await within(PUSH_LIMIT_S, due, last);
}

module.exports = { subscribe, push, pushLarge };
