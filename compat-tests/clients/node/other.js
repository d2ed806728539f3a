'use strict';

/* The second client: plain HTTP, no SDK. It makes the changes that the SDK must notice and sees what the SDK did. */

const { isDeepStrictEqual } = require('util');
const { setTimeout: sleep } = require('timers/promises');

const REQUEST_LIMIT_MS = 5000;

/** What a check wanted isn't what came. */
class Wrong extends Error {
  constructor(wanted, came) {
    super(`wanted ${text(wanted)}, came ${text(came)}`);
  }
}

function text(value) {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function expect(wanted, came) {
  if (!isDeepStrictEqual(wanted, came)) throw new Wrong(wanted, came);
}

/** Looks ten times a second until `look()` gives `wanted`; past the limit that is a fault. */
async function within(limitS, wanted, look) {
  const end = Date.now() + limitS * 1000;
  for (;;) {
    const came = await look();
    if (isDeepStrictEqual(wanted, came)) return;
    if (Date.now() > end) throw new Wrong(`${text(wanted)} within ${limitS} s`, came);
    await sleep(100);
  }
}

/** One instance as a comparable line, with all that a client can set or see. */
function line(host) {
  const metadata = Object.entries(host.metadata).sort();
  return `${host.ip}:${host.port} ${host.clusterName} weight ${text(host.weight)} healthy ${host.healthy}` +
    ` enabled ${host.enabled} ephemeral ${host.ephemeral} ${JSON.stringify(metadata)}`;
}

/** The lines of instances as they must be seen; what isn't given is Nacos's default. */
function wanted(...instances) {
  const defaults = {
    clusterName: 'DEFAULT', weight: 1, healthy: true, enabled: true, ephemeral: true, metadata: {},
  };
  return instances.map((instance) => line({ ...defaults, ...instance })).sort();
}

class Other {
  constructor(server) {
    this.base = `http://${server}/nacos/v1/ns`;
  }

  /** The answer's text; any status but 200 is an error. */
  async call(method, path, parameters) {
    const answer = await this.fetch(method, path, parameters);
    const body = await answer.text();
    if (answer.status !== 200) throw new Wrong(`status 200 for ${method} ${path}`, `${answer.status} ${body}`);
    return body;
  }

  fetch(method, path, parameters = {}) {
    const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
    const signal = AbortSignal.timeout(REQUEST_LIMIT_MS);
    return fetch(`${this.base}${path}?${new URLSearchParams(given)}`, { method, signal });
  }

  async waitForServer() {
    const end = Date.now() + 10000;
    for (;;) {
      try {
        await this.fetch('GET', '/operator/metrics');
        return; // it answers; what it answers is the checks' business
      } catch (fault) {
        if (Date.now() > end) throw fault.cause || fault;
        await sleep(200);
      }
    }
  }

  instance(method, { service, metadata, ...more }) {
    return this.call(method, '/instance', {
      serviceName: service, ...more, metadata: metadata && JSON.stringify(metadata),
    });
  }

  register(instance) {
    return this.instance('POST', instance);
  }

  deregister(instance) {
    return this.instance('DELETE', instance);
  }

  async lines(service) {
    const answer = await this.call('GET', '/instance/list', { serviceName: service });
    return JSON.parse(answer).hosts.map(line).sort();
  }
}

module.exports = { Other, Wrong, expect, line, sleep, wanted, within };
