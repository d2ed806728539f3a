package suite;

import static suite.DubboStage.NOTE;
import static suite.DubboStage.instance;
import static suite.Other.lines;
import static suite.Wrong.expect;
import static suite.Wrong.within;

import com.alibaba.nacos.api.naming.pojo.Instance;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.dubbo.rpc.RpcException;

/** The checks of Dubbo 2.7.23's registry, in their order: what stops a provider comes last. */
public final class DubboSuite {
    /** Until another client lists what was registered: Nacos answers a little before. */
    private static final double LIST_LIMIT_S = 2;
    /** Nacos itself pushes after 1 s; without a push the SDK asks every 10 s. */
    private static final double PUSH_LIMIT_S = 5;
    /** Until Dubbo calls accordingly: it connects first, which takes long on a busy machine. */
    private static final double CALLS_LIMIT_S = 20;
    /** A clean stop begins with the removal. Without one an instance would be listed for 30 s. */
    private static final double STOP_LIMIT_S = 10;
    /** Time-outs of 3 and 6 s, sweeps of 5 s, and a push. */
    private static final double SILENCE_LIMIT_S = 13;

    private static final Map<String, Script.Check<DubboStage>> CHECKS = new LinkedHashMap<>();

    static {
        CHECKS.put("registers", DubboSuite::registers);
        CHECKS.put("discovers", DubboSuite::discovers);
        CHECKS.put("calls", DubboSuite::calls);
        CHECKS.put("hears-changes", DubboSuite::hearsChanges);
        CHECKS.put("default-settings", DubboSuite::defaultSettings);
        CHECKS.put("gone-after-kill", DubboSuite::goneAfterKill);
        CHECKS.put("leaves", DubboSuite::leaves);
        CHECKS.put("last-leaves", DubboSuite::lastLeaves);
    }

    private DubboSuite() {}

    public static void main(String[] args) {
        Script.main(args, CHECKS, DubboStage::new);
    }

    private static Map<String, String> parameters(DubboStage stage, Map<String, String> further) {
        Map<String, String> all = new HashMap<>(further);
        all.putAll(Map.of("interface", Greeter.class.getName(), "version", DubboApp.VERSION, "group", stage.group));
        return all;
    }

    /** The parameters that the providers were started with: without them the consumer could not tell them apart. */
    private static Map<String, String> ofLight(DubboStage stage) {
        return parameters(stage, Map.of("side", "provider", "methods", "greet", "weight", "1", "note", NOTE));
    }

    private static Map<String, String> ofHeavy(DubboStage stage) {
        return parameters(stage, Map.of("side", "provider", "methods", "greet", "weight", "9"));
    }

    private static void registers(DubboStage stage) throws Exception {
        Map<String, String> extra = Map.of("category", "providers", "protocol", "dubbo", "path", Greeter.class.getName());
        Map<String, String> light = new HashMap<>(ofLight(stage));
        light.putAll(extra);
        Map<String, String> heavy = new HashMap<>(ofHeavy(stage));
        heavy.putAll(extra);
        within(LIST_LIMIT_S, lines(instance(stage.light().port(), light), instance(stage.heavy().port(), heavy)),
                () -> lines(stage.listed(stage.providers(), light.keySet())));
        Map<String, String> consumer = parameters(stage, Map.of("side", "consumer", "category", "consumers"));
        within(LIST_LIMIT_S, lines(instance(0, consumer)), () -> lines(stage.listed(stage.consumers(), consumer.keySet())));
    }

    /** The providers that the consumer knows, with the parameters that the checks are about. */
    private static Map<Integer, Map<String, String>> known(DubboStage stage) throws Exception {
        Map<Integer, Map<String, String>> found = new HashMap<>();
        Set<String> names = ofLight(stage).keySet();
        stage.known().forEach((port, parameters) -> {
            Map<String, String> kept = new HashMap<>(parameters);
            kept.keySet().retainAll(names);
            found.put(port, kept);
        });
        return found;
    }

    private static void discovers(DubboStage stage) throws Exception {
        Map<Integer, Map<String, String>> wanted =
                Map.of(stage.light().port(), ofLight(stage), stage.heavy().port(), ofHeavy(stage));
        within(PUSH_LIMIT_S, wanted, () -> known(stage));
    }

    /** Of 400 calls a tenth goes to the light one, if Dubbo has its weight: 40, and hardly ever 30 less or more. */
    private static void calls(DubboStage stage) throws Exception {
        Set<Integer> both = new TreeSet<>(Set.of(stage.light().port(), stage.heavy().port()));
        within(PUSH_LIMIT_S, both, () -> stage.known().keySet());
        reaches(stage, both);
        int light = 0;
        for (int call = 0; call < 400; call++) {
            light += stage.call() == stage.light().port() ? 1 : 0;
        }
        if (light < 10 || light > 70) {
            throw new Wrong("10 to 70 of 400 calls for the one with a tenth of the weight", light);
        }
    }

    /** Dubbo keeps what it was told a moment before it calls accordingly, so this may need more than one try. */
    private static void reaches(DubboStage stage, Set<Integer> wanted) throws Exception {
        within(CALLS_LIMIT_S, wanted.toString(), () -> {
            Set<Integer> ports = new TreeSet<>();
            try {
                for (int call = 0; call < 100; call++) {
                    ports.add(stage.call());
                }
            } catch (RpcException refused) {
                return refused.getMessage().contains("No provider available") ? "[]" : refused.getMessage();
            }
            return ports.toString();
        });
    }

    /** Three changes by another client: after the first was heard the next question is 10 s away, so these were pushed. */
    private static void hearsChanges(DubboStage stage) throws Exception {
        int port = stage.light().port();
        within(PUSH_LIMIT_S, true, () -> stage.known().containsKey(port));
        Instance light = stage.other.instances(stage.providers()).stream().filter(i -> i.getPort() == port).findAny()
                .orElseThrow(() -> new Wrong("the provider in the list", "a list without it"));
        for (String note : new String[] {"one", "two", NOTE}) {
            light.getMetadata().put("note", note);
            stage.other.patchMetadata(stage.providers(), light);
            within(PUSH_LIMIT_S, note, () -> stage.known().get(port).get("note"));
        }
    }

    /** Dubbo as it is by default: it uses the registry as its configuration, too, and must start if there is none. */
    private static void defaultSettings(DubboStage stage) throws Exception {
        String group = stage.group + "-default";
        Child child = stage.provider(group, DubboApp.withConfiguration());
        int port = child.port();
        within(LIST_LIMIT_S, Set.of(port), () -> {
            Set<Integer> ports = new TreeSet<>();
            stage.other.instances(DubboStage.providers(group)).forEach(instance -> ports.add(instance.getPort()));
            return ports;
        });
        child.kill();
        stage.forgetDescription(group);
    }

    /** A third provider is discovered, killed, and forgotten by the consumer, for which it must be healthy. */
    private static void goneAfterKill(DubboStage stage) throws Exception {
        Set<Integer> others = new TreeSet<>(Set.of(stage.light().port(), stage.heavy().port()));
        // The SDK refuses time-outs that aren't longer than the interval.
        Child hasty = stage.provider(stage.group, "weight=9", "warmup=1", "preserved.heart.beat.interval=1000",
                "preserved.heart.beat.timeout=3000", "preserved.ip.delete.timeout=6000");
        Set<Integer> all = new TreeSet<>(others);
        all.add(hasty.port());
        within(PUSH_LIMIT_S, all, () -> stage.known().keySet());
        hasty.kill();
        expect(all, stage.known().keySet());
        within(SILENCE_LIMIT_S, others, () -> stage.known().keySet());
        within(SILENCE_LIMIT_S, 2, () -> stage.other.instances(stage.providers()).size());
        reaches(stage, others);
    }

    private static void leaves(DubboStage stage) throws Exception {
        int heavy = stage.heavy().port();
        within(PUSH_LIMIT_S, true, () -> stage.known().containsKey(stage.light().port()));
        stage.light().stop();
        within(STOP_LIMIT_S, 1, () -> stage.other.instances(stage.providers()).size());
        within(PUSH_LIMIT_S, Set.of(heavy), () -> stage.known().keySet());
        reaches(stage, Set.of(heavy));
    }

    private static void lastLeaves(DubboStage stage) throws Exception {
        stage.light().stop();
        stage.heavy().stop();
        within(STOP_LIMIT_S, lines(), () -> stage.other.lines(stage.providers()));
        within(PUSH_LIMIT_S, Set.of(), () -> stage.known().keySet());
        reaches(stage, Set.of());
    }
}
