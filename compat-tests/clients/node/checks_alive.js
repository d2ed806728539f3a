'use strict';

/* Beats, and what becomes of an instance without them. */

const { spawn } = require('child_process');
const { once } = require('events');
const path = require('path');
const { isDeepStrictEqual } = require('util');

const { IP, METADATA } = require('./world');
const { Wrong, expect, sleep, wanted, within } = require('./other');

/** 25 s are past both the time-out for beats and its sweep, so only beats can have kept it healthy. */
async function keepAlive(world) {
  const service = world.service('keep-alive');
  const lasting = await world.registerPersistent(service);
  const fresh = { ip: IP, port: 8001, metadata: { a: 'b' } };
  await world.register({ service, ...fresh });
  await within(2, wanted(lasting, fresh), () => world.other.lines(service));
  const end = Date.now() + 25000;
  // Registering again would write the SDK's own metadata over this.
  const marked = { ip: IP, port: 8001, metadata: { a: 'b', marked: 'by another' } };
  await world.other.instance('PATCH', { service, ...marked });
  await within(2, wanted(lasting, marked), () => world.other.lines(service));
  while (Date.now() < end) {
    expect(wanted(lasting, marked), await world.other.lines(service));
    await sleep(500);
  }
}

/** An instance that the server has lost returns by the next beat (up to 10 s away), with all that it had. */
async function comesBack(world) {
  const service = world.service('comes-back');
  const instance = { ip: IP, port: 8001, weight: 2.5, metadata: METADATA };
  await world.register({ service, ...instance });
  await within(2, wanted(instance), () => world.other.lines(service));
  await world.other.deregister({ service, ...instance });
  await within(14, wanted(instance), () => world.other.lines(service));
}

async function deregister(world) {
  const service = world.service('deregister');
  const lasting = await world.registerPersistent(service);
  const instance = { ip: IP, port: 8001 };
  await world.register({ service, ...instance });
  await within(2, wanted(lasting, instance), () => world.other.lines(service));
  await world.sdk.deregisterInstance(service, instance);
  expect(wanted(lasting), await world.other.lines(service));
  await world.sdk.deregisterInstance(service, lasting);
  expect([], await world.other.lines(service));
  const end = Date.now() + 11000; // a beat sent all the same would bring it back
  while (Date.now() < end) {
    await sleep(500);
    expect([], await world.other.lines(service));
  }
}

/** A process that registers an instance and then only beats. It dies with this one. */
async function startChild(world, service, metadata) {
  const child = spawn(process.execPath, [path.join(__dirname, 'suite.js'), world.server, '--child', service, IP, '8001',
    JSON.stringify(metadata)], { stdio: ['pipe', 'pipe', 'inherit'] });
  const [said] = await Promise.race([once(child.stdout, 'data'), once(child, 'exit')]);
  expect('registered\n', String(said));
  return child;
}

/** Kills a process that has registered. Gives when its instance was first seen unhealthy, if ever. */
async function killAndWatch(world, check, metadata, goneFromS, goneUntilS) {
  const service = world.service(check);
  const lasting = await world.registerPersistent(service);
  const instance = { ip: IP, port: 8001, metadata };
  const well = wanted(lasting, instance);
  const ill = wanted(lasting, { ...instance, healthy: false });
  const child = await startChild(world, service, metadata);
  try {
    await within(2, well, () => world.other.lines(service));
  } finally {
    child.kill('SIGKILL');
  }
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  const killed = Date.now();
  let illAfterS;
  for (;;) {
    const came = await world.other.lines(service);
    const afterS = (Date.now() - killed) / 1000;
    if (isDeepStrictEqual(came, wanted(lasting))) {
      if (afterS < goneFromS) throw new Wrong(`it to stay for ${goneFromS} s`, `gone after ${afterS} s`);
      return illAfterS;
    }
    if (isDeepStrictEqual(came, ill)) illAfterS = illAfterS ?? afterS;
    else if (!isDeepStrictEqual(came, well)) throw new Wrong(`${wanted(lasting)}, with or without the killed one`, came);
    if (afterS > goneUntilS) throw new Wrong(`only ${wanted(lasting)} within ${goneUntilS} s of the kill`, came);
    await sleep(200);
  }
}

async function goneAfterKill(world) {
  const illAfterS = await killAndWatch(world, 'gone-after-kill', {}, 24, 37);
  if (!(illAfterS >= 9 && illAfterS <= 22)) {
    throw new Wrong('unhealthy 15 to 20 s after the last beat', `unhealthy after ${illAfterS} s`);
  }
}

async function goneAfterKillShort(world) {
  const timeouts = { 'preserved.heart.beat.timeout': '3000', 'preserved.ip.delete.timeout': '6000' };
  await killAndWatch(world, 'gone-after-kill-short', timeouts, 4, 13);
}

module.exports = { keepAlive, comesBack, deregister, goneAfterKill, goneAfterKillShort };
