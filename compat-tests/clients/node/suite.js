'use strict';

/*
 * Runs the checks of nacos-naming 2.6.3 against a server, all at once, and prints a line for each.
 *
 * Place: started by ../run and ../prove. checks*.js hold the checks, world.js the SDK's side, other.js the client
 * that they are measured with.
 *
 *     node suite.js HOST:PORT [--only NAME,NAME]
 *     node suite.js --names
 *     node suite.js HOST:PORT --child SERVICE IP PORT METADATA   (what the killed-client checks kill)
 *
 * Exit code: 0 every check passed, 1 one failed, 2 the suite couldn't run.
 */

const { World } = require('./world');
const { Wrong } = require('./other');
const { CHECKS, SKIPPED } = require('./checks');

// One check that hangs must not hide the others.
const CHECK_LIMIT_S = 60;

function say(line) {
  process.stdout.write(line + '\n');
}

function cannotRun(why) {
  process.stderr.write(`couldn't run: ${why}\n`);
  return 2;
}

function withLimit(promise) {
  let timer;
  const limit = new Promise((_, reject) => {
    const late = new Wrong(`an end within ${CHECK_LIMIT_S} s`, 'it still runs');
    timer = setTimeout(() => reject(late), CHECK_LIMIT_S * 1000);
  });
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer));
}

async function runOne(world, name) {
  try {
    await withLimit(CHECKS[name](world));
    say(`ok ${name}`);
    return true;
  } catch (fault) {
    say(`FAIL ${name}: ${fault instanceof Wrong ? fault.message : `wanted no error, came ${fault.stack}`.replace(/\n\s*/g, ' ')}`);
    return false;
  }
}

async function runAll(world, names) {
  try {
    await world.other.waitForServer();
  } catch (fault) {
    return cannotRun(fault.message);
  }
  const passed = await Promise.all(names.map((name) => runOne(world, name)));
  await world.cleanUp();
  return passed.every(Boolean) ? 0 : 1;
}

async function child(world, [service, ip, port, metadata]) {
  await world.register({ service, ip, port: Number(port), metadata: JSON.parse(metadata) });
  say('registered');
  for await (const _ of process.stdin); // until killed, or until the parent has gone
  return 0;
}

async function main([server, ...rest]) {
  if (server === '--names') {
    Object.keys(CHECKS).forEach(say);
    return 0;
  }
  if (!server || server.startsWith('--')) return cannotRun('HOST:PORT is missing');
  const world = new World(server);
  await world.sdk.ready();
  if (rest[0] === '--child' && rest.length === 5) return child(world, rest.slice(1));
  if (rest[0] === '--only' && rest.length === 2) {
    const names = rest[1].split(',');
    const unknown = names.filter((name) => !CHECKS[name]);
    return unknown.length ? cannotRun(`no check is called ${unknown}`) : runAll(world, names);
  }
  if (rest.length) return cannotRun(`unknown arguments ${rest}`);
  for (const [name, why] of Object.entries(SKIPPED)) say(`skip ${name}: ${why}`);
  return runAll(world, Object.keys(CHECKS));
}

main(process.argv.slice(2)).then(
  // Not before what was said is out: the pipe is written to asynchronously.
  (code) => process.stdout.write('', () => process.exit(code)),
  (fault) => process.exit(cannotRun(fault.stack)),
);
