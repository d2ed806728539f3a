'use strict';

/* The SDK's side: its clients, and what must be removed in the end. */

const net = require('net');

// The SDK reads its own address once, when it is loaded, and has pushes sent there. They shall stay on loopback.
require('address').ip = () => '127.0.0.1';

const { NacosNamingClient } = require('nacos-naming');
const { Other } = require('./other');

const IP = '127.0.0.1';
const METADATA = { zone: 'a b', note: 'ü=1&2+3%', empty: '' };

const silent = { debug() {}, info() {}, warn() {}, error() {} };

class World {
  constructor(server) {
    this.server = server;
    this.other = new Other(server);
    this.runId = process.pid.toString(16) + (Date.now() & 0xffffff).toString(16);
    this.sdk = this.client();
    this.persistent = [];
  }

  client(namespace = 'public') {
    const client = new NacosNamingClient({ logger: silent, serverList: this.server, namespace });
    client.on('error', () => {}); // it also rejects the call, and that is what the checks see
    return client;
  }

  service(check) {
    return `clients-node-${this.runId}-${check}`;
  }

  async register({ service, group, ...instance }, sdk = this.sdk) {
    await sdk.registerInstance(service, instance, group);
    if (instance.ephemeral === false) this.persistent.push({ service, ip: instance.ip, port: instance.port, ephemeral: false });
  }

  /** Registers a persistent instance whose port answers the server's health checks. */
  async registerPersistent(service) {
    const listener = net.createServer((socket) => socket.destroy());
    await new Promise((resolve) => listener.listen(0, IP, resolve));
    const instance = { ip: IP, port: listener.address().port, ephemeral: false, metadata: METADATA };
    await this.register({ service, ...instance });
    return instance;
  }

  async cleanUp() {
    for (const instance of this.persistent) await this.other.deregister(instance);
  }
}

module.exports = { World, IP, METADATA };
