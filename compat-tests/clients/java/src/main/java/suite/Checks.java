package suite;

import static suite.Other.lines;
import static suite.Wrong.expect;
import static suite.Wrong.within;
import static suite.World.METADATA;
import static suite.World.at;
import static suite.World.unhealthy;
import static suite.World.weighted;

import com.alibaba.nacos.api.naming.NamingMaintainFactory;
import com.alibaba.nacos.api.naming.NamingService;
import com.alibaba.nacos.api.naming.pojo.Instance;
import com.alibaba.nacos.api.naming.pojo.ListView;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Registering, listing, selecting, names. Each check has a service of its own, so all run at once. */
final class Checks {
    static final Map<String, Suite.Check> CHECKS = new LinkedHashMap<>();

    static {
        CHECKS.put("register-ephemeral", Checks::registerEphemeral);
        CHECKS.put("register-persistent", Checks::registerPersistent);
        CHECKS.put("update", Checks::update);
        CHECKS.put("list", Checks::list);
        CHECKS.put("select-healthy", Checks::selectHealthy);
        CHECKS.put("select-by-weight", Checks::selectByWeight);
        CHECKS.put("services", Checks::services);
        CHECKS.put("groups", Checks::groups);
        CHECKS.put("namespaces", Checks::namespaces);
        CHECKS.put("clusters", Checks::clusters);
        CHECKS.put("server-status", Checks::serverStatus);
    }

    private Checks() {}

    private static void registerEphemeral(World world) throws Exception {
        String service = world.service("register-ephemeral");
        Instance instance = weighted(8001, 2.5, METADATA);
        world.register(service, instance);
        within(2, lines(instance), () -> world.other.lines(service));
    }

    private static void registerPersistent(World world) throws Exception {
        String service = world.service("register-persistent");
        Instance instance = world.registerPersistent(service);
        within(2, lines(instance), () -> world.other.lines(service));
    }

    private static void update(World world) throws Exception {
        String service = world.service("update");
        Instance instance = weighted(8001, 2.5, METADATA);
        world.register(service, instance);
        within(2, lines(instance), () -> world.other.lines(service));
        Instance changed = weighted(8001, 3.5, Map.of("zone", "b", "new", "ö"));
        NamingMaintainFactory.createMaintainService(world.properties("public")).updateInstance(service, changed);
        within(2, lines(changed), () -> world.other.lines(service));
    }

    private static void list(World world) throws Exception {
        String service = world.service("list");
        Instance east = at(8002);
        east.setClusterName("east");
        Instance far = World.instance("127.0.0.2", 8001, Map.of());
        far.setWeight(0);
        Instance[] instances = {weighted(8001, 2.5, METADATA), east, far};
        for (Instance instance : instances) {
            world.other.register(service, instance);
        }
        within(2, lines(instances), () -> lines(world.sdk.getAllInstances(service, false)));
    }

    private static void selectHealthy(World world) throws Exception {
        String service = world.service("select-healthy");
        Instance well = at(8001);
        Instance ill = unhealthy(at(8002));
        world.other.register(service, well);
        world.other.register(service, ill);
        within(2, lines(well), () -> lines(world.sdk.selectInstances(service, true, false)));
        within(2, lines(ill), () -> lines(world.sdk.selectInstances(service, false, false)));
    }

    /** 400 draws from weights 1 and 9: 360 are due for the heavy one, six sigma are 36. */
    private static void selectByWeight(World world) throws Exception {
        String service = world.service("select-by-weight");
        world.other.register(service, weighted(8001, 1, Map.of()));
        world.other.register(service, weighted(8002, 9, Map.of()));
        Thread.sleep(PushChecks.QUIET_MS);
        int heavy = 0;
        for (int draw = 0; draw < 400; draw++) {
            heavy += world.sdk.selectOneHealthyInstance(service).getPort() == 8002 ? 1 : 0;
        }
        if (heavy < 324 || heavy > 396) {
            throw new Wrong("360±36 of 400 draws for the instance of weight 9 beside one of weight 1", heavy);
        }
    }

    private static void services(World world) throws Exception {
        String group = world.service("services");
        List<String> names = List.of("a", "b", "c", "d", "e");
        for (String service : names) {
            world.sdk.registerInstance(service, group, at(8001));
        }
        int[][] pages = {{1, 2}, {2, 2}, {3, 1}};
        for (int[] page : pages) {
            ListView<String> answer = world.sdk.getServicesOfServer(page[0], 2, group);
            expect(page[1] + " of 5 on page " + page[0],
                    answer.getData().size() + " of " + answer.getCount() + " on page " + page[0]);
        }
        expect(names, world.sdk.getServicesOfServer(1, 10, group).getData().stream().sorted().toList());
    }

    private static List<Integer> ports(NamingService sdk, String service, String group, String... clusters)
            throws Exception {
        return sdk.getAllInstances(service, group, List.of(clusters), false).stream()
                .map(Instance::getPort).sorted().toList();
    }

    private static void groups(World world) throws Exception {
        String service = world.service("groups");
        world.sdk.registerInstance(service, "red", at(8001));
        world.sdk.registerInstance(service, "blue", at(8002));
        within(2, List.of(8001), () -> ports(world.sdk, service, "red"));
        within(2, List.of(8002), () -> ports(world.sdk, service, "blue"));
        expect(List.of(), ports(world.sdk, service, "DEFAULT_GROUP"));
    }

    private static void namespaces(World world) throws Exception {
        String service = world.service("namespaces");
        Map<Integer, NamingService> sdks = new LinkedHashMap<>();
        for (int port : new int[] {8001, 8002}) {
            NamingService sdk = world.client("clients-" + world.runId + "-" + port);
            sdk.registerInstance(service, at(port));
            sdks.put(port, sdk);
        }
        for (Map.Entry<Integer, NamingService> sdk : sdks.entrySet()) {
            within(2, List.of(sdk.getKey()), () -> ports(sdk.getValue(), service, "DEFAULT_GROUP"));
        }
        expect(List.of(), ports(world.sdk, service, "DEFAULT_GROUP"));
    }

    private static void clusters(World world) throws Exception {
        String service = world.service("clusters");
        world.sdk.registerInstance(service, Other.IP, 8001, "east");
        world.sdk.registerInstance(service, Other.IP, 8002, "west");
        within(2, List.of(8001), () -> ports(world.sdk, service, "DEFAULT_GROUP", "east"));
        within(2, List.of(8002), () -> ports(world.sdk, service, "DEFAULT_GROUP", "west"));
        within(2, List.of(8001, 8002), () -> ports(world.sdk, service, "DEFAULT_GROUP", "east", "west"));
        within(2, List.of(8001, 8002), () -> ports(world.sdk, service, "DEFAULT_GROUP"));
    }

    private static void serverStatus(World world) throws Exception {
        expect("UP", world.sdk.getServerStatus());
    }
}
