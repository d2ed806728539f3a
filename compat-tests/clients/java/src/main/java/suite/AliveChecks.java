package suite;

import static suite.Other.lines;
import static suite.Wrong.expect;
import static suite.Wrong.within;
import static suite.World.METADATA;
import static suite.World.at;
import static suite.World.unhealthy;
import static suite.World.weighted;

import com.alibaba.nacos.api.naming.pojo.Instance;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Beats, and what becomes of an instance without them. */
final class AliveChecks {
    static final Map<String, Suite.Check> CHECKS = new LinkedHashMap<>();

    static {
        CHECKS.put("keep-alive", AliveChecks::keepAlive);
        CHECKS.put("comes-back", AliveChecks::comesBack);
        CHECKS.put("gone-after-kill", AliveChecks::goneAfterKill);
        CHECKS.put("gone-after-kill-short", AliveChecks::goneAfterKillShort);
        CHECKS.put("deregister", AliveChecks::deregister);
    }

    private AliveChecks() {}

    private static double secondsSince(long nanos) {
        return (System.nanoTime() - nanos) / 1e9;
    }

    /** 25 s are past both the time-out for beats and its sweep, so only beats can have kept it healthy. */
    private static void keepAlive(World world) throws Exception {
        String service = world.service("keep-alive");
        Instance lasting = world.registerPersistent(service);
        Instance fresh = World.instance(Other.IP, 8001, Map.of("a", "b"));
        world.register(service, fresh);
        within(2, lines(lasting, fresh), () -> world.other.lines(service));
        long start = System.nanoTime();
        // Registering again would write the SDK's own metadata over this.
        Instance marked = World.instance(Other.IP, 8001, Map.of("a", "b", "marked", "by another"));
        world.other.patchMetadata(service, marked);
        within(2, lines(lasting, marked), () -> world.other.lines(service));
        while (secondsSince(start) < 25) {
            expect(lines(lasting, marked), world.other.lines(service));
            Thread.sleep(500);
        }
    }

    /**
     * An instance that the server has lost returns by the next beats, with all that it had. After the first beat, due
     * after 5 s, the SDK sends light ones, which can't bring it back: the server's answer must make it register again.
     */
    private static void comesBack(World world) throws Exception {
        String service = world.service("comes-back");
        Instance instance = weighted(8001, 2.5, METADATA);
        world.register(service, instance);
        within(2, lines(instance), () -> world.other.lines(service));
        Thread.sleep(6500);
        world.other.deregister(service, instance);
        within(12, lines(instance), () -> world.other.lines(service));
    }

    private static void deregister(World world) throws Exception {
        String service = world.service("deregister");
        Instance lasting = world.registerPersistent(service);
        world.register(service, at(8001));
        within(2, lines(lasting, at(8001)), () -> world.other.lines(service));
        world.sdk.deregisterInstance(service, at(8001));
        expect(lines(lasting), world.other.lines(service));
        world.sdk.deregisterInstance(service, lasting);
        expect(lines(), world.other.lines(service));
        long start = System.nanoTime(); // a beat sent all the same would bring it back
        while (secondsSince(start) < 6) {
            Thread.sleep(500);
            expect(lines(), world.other.lines(service));
        }
    }

    /** A process that registers an instance and then only beats. It dies with this one. */
    private static Process startChild(World world, String service, Instance instance) throws Exception {
        Process child = new ProcessBuilder(ProcessHandle.current().info().command().orElse("java"),
                "-Djava.io.tmpdir=" + System.getProperty("java.io.tmpdir"), "-cp", System.getProperty("java.class.path"), "suite.Suite", world.server, "--child", service, instance.getIp(),
                Integer.toString(instance.getPort()), new ObjectMapper().writeValueAsString(instance.getMetadata()))
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try (BufferedReader out = child.inputReader()) {
            expect("registered", out.readLine());
        }
        return child;
    }

    /** Kills a process that has registered. Gives when its instance was first seen unhealthy, NaN if never. */
    private static double killAndWatch(World world, String check, Map<String, String> metadata, double goneFromS,
            double goneUntilS) throws Exception {
        String service = world.service(check);
        Instance lasting = world.registerPersistent(service);
        Instance instance = World.instance(Other.IP, 8001, metadata);
        List<String> well = lines(lasting, instance);
        List<String> ill = lines(lasting, unhealthy(instance));
        Process child = startChild(world, service, instance);
        try {
            within(2, well, () -> world.other.lines(service));
        } finally {
            child.destroyForcibly().waitFor();
        }
        long killed = System.nanoTime();
        double illAfterS = Double.NaN;
        while (true) {
            List<String> came = world.other.lines(service);
            double afterS = secondsSince(killed);
            if (came.equals(lines(lasting))) {
                if (afterS < goneFromS) {
                    throw new Wrong("it to stay for " + goneFromS + " s", "gone after " + afterS + " s");
                }
                return illAfterS;
            }
            if (came.equals(ill)) {
                illAfterS = Double.isNaN(illAfterS) ? afterS : illAfterS;
            } else if (!came.equals(well)) {
                throw new Wrong(lines(lasting) + " with or without the killed one", came);
            }
            if (afterS > goneUntilS) {
                throw new Wrong("only " + lines(lasting) + " within " + goneUntilS + " s of the kill", came);
            }
            Thread.sleep(200);
        }
    }

    private static void goneAfterKill(World world) throws Exception {
        double illAfterS = killAndWatch(world, "gone-after-kill", Map.of(), 24, 37);
        if (!(illAfterS >= 9 && illAfterS <= 22)) {
            throw new Wrong("unhealthy 15 to 20 s after the last beat", "unhealthy after " + illAfterS + " s");
        }
    }

    private static void goneAfterKillShort(World world) throws Exception {
        // The SDK refuses time-outs that aren't longer than the interval.
        Map<String, String> timeouts = Map.of("preserved.heart.beat.interval", "1000",
                "preserved.heart.beat.timeout", "3000", "preserved.ip.delete.timeout", "6000");
        killAndWatch(world, "gone-after-kill-short", timeouts, 4, 13);
    }
}
