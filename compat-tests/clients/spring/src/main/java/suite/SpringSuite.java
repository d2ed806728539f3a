package suite;

import static suite.Other.lines;
import static suite.SpringStage.METADATA;
import static suite.SpringStage.registered;
import static suite.Wrong.expect;
import static suite.Wrong.within;

import com.alibaba.nacos.api.naming.pojo.Instance;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.springframework.web.client.RestTemplate;

/** The checks of Spring Cloud Alibaba discovery 2021.1, in their order: what stops a provider comes last. */
public final class SpringSuite {
    /** Until another client lists what was registered: Nacos answers a little before. */
    private static final double LIST_LIMIT_S = 2;
    /** Nacos itself pushes after 1 s; without a push the SDK asks every 10 s. */
    private static final double PUSH_LIMIT_S = 5;
    /** A clean stop begins with the removal. Without one an instance would be listed for 30 s. */
    private static final double STOP_LIMIT_S = 10;
    /** Time-outs of 3 and 6 s, sweeps of 5 s, and a push. */
    private static final double SILENCE_LIMIT_S = 13;

    private static final Map<String, Script.Check<SpringStage>> CHECKS = new LinkedHashMap<>();

    static {
        CHECKS.put("registers", SpringSuite::registers);
        CHECKS.put("services", SpringSuite::services);
        CHECKS.put("discovers", SpringSuite::discovers);
        CHECKS.put("calls", SpringSuite::calls);
        CHECKS.put("calls-back", SpringSuite::callsBack);
        CHECKS.put("hears-changes", SpringSuite::hearsChanges);
        CHECKS.put("groups", SpringSuite::groups);
        CHECKS.put("gone-after-kill", SpringSuite::goneAfterKill);
        CHECKS.put("leaves", SpringSuite::leaves);
        CHECKS.put("last-leaves", SpringSuite::lastLeaves);
    }

    private SpringSuite() {}

    public static void main(String[] args) {
        Script.main(args, CHECKS, SpringStage::new);
    }

    private static void registers(SpringStage stage) throws Exception {
        Instance first = registered(stage.first().port(), 2.5, "DEFAULT", METADATA);
        Instance second = registered(stage.second().port(), 1, "west", Map.of());
        within(LIST_LIMIT_S, lines(first, second), () -> stage.other.lines(stage.provider));
        Instance consumer = registered(stage.consumerPort(), 1, "DEFAULT", Map.of());
        within(LIST_LIMIT_S, lines(consumer), () -> stage.other.lines(stage.consumer));
    }

    /** Both applications are among all services, which the framework reads as one page of 2,147,483,647. */
    private static void services(SpringStage stage) throws Exception {
        Set<String> both = Set.of(stage.provider, stage.consumer);
        within(LIST_LIMIT_S, both, () -> {
            Set<String> found = new TreeSet<>(stage.discovery().getServices());
            found.retainAll(both);
            return found;
        });
    }

    private static Map<String, String> told(String weight, String cluster, Map<String, String> metadata) {
        Map<String, String> all = new HashMap<>(metadata);
        all.put("preserved.register.source", "SPRING_CLOUD");
        all.put("nacos.weight", weight);
        all.put("nacos.cluster", cluster);
        all.put("nacos.healthy", "true");
        all.put("nacos.ephemeral", "true");
        return all;
    }

    /** What the consumer knows, without the ids, whose form is the server's business. */
    private static Map<Integer, Map<String, String>> known(SpringStage stage) throws Exception {
        Map<Integer, Map<String, String>> known = stage.known();
        known.values().forEach(metadata -> metadata.remove("nacos.instanceId"));
        return known;
    }

    private static void discovers(SpringStage stage) throws Exception {
        Map<Integer, Map<String, String>> wanted = Map.of(
                stage.first().port(), told("2.5", "DEFAULT", METADATA),
                stage.second().port(), told("1.0", "west", Map.of()));
        within(PUSH_LIMIT_S, wanted, () -> known(stage));
    }

    private static Set<Integer> reached(SpringStage stage, int calls) throws Exception {
        Set<Integer> ports = new TreeSet<>();
        for (int call = 0; call < calls; call++) {
            ports.add(stage.call());
        }
        return ports;
    }

    /** The balancer takes turns, so ten calls reach both. */
    private static void calls(SpringStage stage) throws Exception {
        Set<Integer> both = Set.of(stage.first().port(), stage.second().port());
        within(PUSH_LIMIT_S, both, () -> stage.known().keySet());
        expect(both, reached(stage, 10));
    }

    /** The provider discovers the consumer and calls it. */
    private static void callsBack(SpringStage stage) throws Exception {
        String door = "http://" + Other.IP + ":" + stage.first().port() + "/port-of/" + stage.consumer;
        within(PUSH_LIMIT_S, Integer.toString(stage.consumerPort()), () -> {
            try {
                return new RestTemplate().getForObject(door, String.class);
            } catch (RuntimeException refused) {
                return refused.getMessage();
            }
        });
    }

    /** Three changes by another client: after the first was heard the next question is 10 s away, so these were pushed. */
    private static void hearsChanges(SpringStage stage) throws Exception {
        int port = stage.first().port();
        within(PUSH_LIMIT_S, true, () -> stage.known().containsKey(port));
        for (String mark : new String[] {"one", "two", "three"}) {
            Map<String, String> metadata = new HashMap<>(METADATA);
            metadata.put("mark", mark);
            stage.other.patchMetadata(stage.provider, registered(port, 2.5, "DEFAULT", metadata));
            within(PUSH_LIMIT_S, told("2.5", "DEFAULT", metadata), () -> known(stage).get(port));
        }
    }

    private static void groups(SpringStage stage) throws Exception {
        Set<Integer> ours = Set.of(stage.first().port(), stage.second().port());
        within(PUSH_LIMIT_S, ours, () -> stage.known().keySet());
        // A foreign instance of the same name, and one of our own to know that the news came.
        Instance foreign = registered(1, 1, "DEFAULT", Map.of());
        Instance late = registered(2, 1, "DEFAULT", Map.of());
        String elsewhere = "OTHER@@" + stage.provider;
        stage.other.register(elsewhere, foreign);
        stage.other.register(stage.provider, late);
        try {
            Set<Integer> wanted = new TreeSet<>(ours);
            wanted.add(late.getPort());
            within(PUSH_LIMIT_S, wanted, () -> stage.known().keySet());
            expect(lines(foreign), stage.other.lines(elsewhere));
        } finally {
            stage.other.deregister(elsewhere, foreign);
            stage.other.deregister(stage.provider, late);
        }
        within(PUSH_LIMIT_S, ours, () -> stage.known().keySet());
    }

    /** A third provider is discovered, killed, and forgotten: first by the consumer, for which it must be healthy. */
    private static void goneAfterKill(SpringStage stage) throws Exception {
        Set<Integer> others = Set.of(stage.first().port(), stage.second().port());
        Child hasty = stage.hasty();
        Set<Integer> all = new TreeSet<>(others);
        all.add(hasty.port());
        within(PUSH_LIMIT_S, all, () -> stage.known().keySet());
        hasty.kill();
        expect(all, stage.known().keySet());
        within(SILENCE_LIMIT_S, others, () -> stage.known().keySet());
        within(SILENCE_LIMIT_S, 2, () -> stage.other.lines(stage.provider).size());
        expect(others, reached(stage, 10));
    }

    private static void leaves(SpringStage stage) throws Exception {
        int second = stage.second().port();
        within(PUSH_LIMIT_S, true, () -> stage.known().containsKey(stage.first().port()));
        stage.first().stop();
        within(STOP_LIMIT_S, lines(registered(second, 1, "west", Map.of())),
                () -> stage.other.lines(stage.provider));
        within(PUSH_LIMIT_S, Set.of(second), () -> stage.known().keySet());
        expect(Set.of(second), reached(stage, 10));
    }

    private static void lastLeaves(SpringStage stage) throws Exception {
        stage.first().stop();
        stage.second().stop();
        within(STOP_LIMIT_S, lines(), () -> stage.other.lines(stage.provider));
        within(PUSH_LIMIT_S, Set.of(), () -> stage.known().keySet());
        try {
            int port = stage.call();
            throw new Wrong("a call that finds no provider", "one answered by " + port);
        } catch (IllegalStateException noProvider) {
            expect("No instances available for " + stage.provider, noProvider.getMessage());
        }
    }
}
