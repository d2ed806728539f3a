package suite;

import static suite.Wrong.expect;
import static suite.Wrong.within;
import static suite.World.at;

import com.alibaba.nacos.api.naming.listener.Event;
import com.alibaba.nacos.api.naming.listener.EventListener;
import com.alibaba.nacos.api.naming.listener.NamingEvent;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Subscriptions. The SDK asks again 1 s after subscribing and then every cacheMillis, 10 s for those who get pushes,
 * 3 s for others. A change is made after the second question and must be heard within 2 s, and the SDK must have been
 * told to ask rarely, so only a push can have brought it.
 */
final class PushChecks {
    private static final double PUSH_LIMIT_S = 2;
    /** The second question is due 1 s after subscribing; twice that on a busy machine. */
    private static final long SECOND_QUESTION_MS = 2000;
    private static final int RARELY_MS = 5000;
    /** After this no push of a change is due any more (Nacos pushes up to 1 s late): a list can only be an answer. */
    static final long QUIET_MS = 1500;

    static final Map<String, Suite.Check> CHECKS = new LinkedHashMap<>();

    static {
        CHECKS.put("subscribe", PushChecks::subscribe);
        CHECKS.put("push", PushChecks::push);
        CHECKS.put("push-empty", PushChecks::pushEmpty);
        CHECKS.put("push-large", PushChecks::pushLarge);
    }

    private PushChecks() {}

    /** Keeps what a subscription heard last: the ports with their metadata. */
    private static final class Ear implements EventListener {
        private int calls;
        private List<String> last = List.of("nothing");

        @Override
        public synchronized void onEvent(Event event) {
            calls++;
            last = ((NamingEvent) event).getInstances().stream()
                    .map(i -> i.getPort() + " " + i.getMetadata()).sorted().toList();
        }

        synchronized int calls() {
            return calls;
        }

        synchronized List<String> last() {
            return last;
        }

        void hears(String... wanted) throws Exception {
            within(PUSH_LIMIT_S, List.of(wanted), this::last);
        }
    }

    /** The first list is heard, and nothing any more after unsubscribing. */
    private static void subscribe(World world) throws Exception {
        String service = world.service("subscribe");
        world.other.register(service, at(8001));
        Thread.sleep(QUIET_MS);
        Ear ear = new Ear();
        world.sdk.subscribe(service, ear);
        ear.hears("8001 {}");
        world.sdk.unsubscribe(service, ear);
        int calls = ear.calls();
        world.other.register(service, at(8002));
        Thread.sleep((long) (PUSH_LIMIT_S * 1000));
        expect(calls, ear.calls());
    }

    /** Subscribes to a service with one instance and waits for the second question. */
    private static Ear listen(World world, String service) throws Exception {
        world.other.register(service, at(8001));
        Ear ear = new Ear();
        world.sdk.subscribe(service, ear);
        ear.hears("8001 {}");
        Thread.sleep(SECOND_QUESTION_MS);
        if (cacheMillis(service) <= RARELY_MS) {
            throw new Wrong("an answer that says to be pushed to", "one with cacheMillis " + cacheMillis(service));
        }
        return ear;
    }

    /** What the SDK was told, as it keeps it on the disk. */
    private static int cacheMillis(String service) throws Exception {
        String key = URLEncoder.encode("DEFAULT_GROUP@@" + service, StandardCharsets.UTF_8);
        Path kept = Path.of(System.getProperty("user.home"), "nacos", "naming", "public", key);
        return new ObjectMapper().readTree(kept.toFile()).get("cacheMillis").asInt();
    }

    private static void push(World world) throws Exception {
        String service = world.service("push");
        Ear ear = listen(world, service);
        world.other.register(service, at(8002));
        ear.hears("8001 {}", "8002 {}");
        world.other.register(service, World.instance(Other.IP, 8002, Map.of("a", "b")));
        ear.hears("8001 {}", "8002 {a=b}");
        world.other.deregister(service, at(8002));
        ear.hears("8001 {}");
    }

    private static void pushEmpty(World world) throws Exception {
        String service = world.service("push-empty");
        Ear ear = listen(world, service);
        world.other.deregister(service, at(8001));
        ear.hears();
    }

    /** 40 instances are pushed compressed. */
    private static void pushLarge(World world) throws Exception {
        String service = world.service("push-large");
        Ear ear = listen(world, service);
        List<String> wanted = new ArrayList<>(List.of("8001 {}"));
        for (int port = 8002; port <= 8040; port++) {
            world.other.register(service, at(port));
            wanted.add(port + " {}");
        }
        ear.hears(wanted.toArray(String[]::new));
    }
}
