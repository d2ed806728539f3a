package suite;

import com.alibaba.nacos.api.naming.pojo.Instance;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.dubbo.common.URL;
import org.apache.dubbo.registry.Registry;
import org.apache.dubbo.registry.support.AbstractRegistry;
import org.apache.dubbo.registry.support.AbstractRegistryFactory;

/** Two providers in processes of their own, and a consumer in this one; started when first asked for. */
final class DubboStage implements Script.Stage {
    /** Text as it stands in Dubbo's own parameters. Signs with a meaning in a URL would not pass Dubbo itself. */
    static final String NOTE = "a,b/c d:1";

    final Other other;
    final String group;

    private final String server;
    private final List<Child> children = new ArrayList<>();
    private Child light;
    private Child heavy;
    private Greeter greeter;
    private Exception fault;

    DubboStage(String server) {
        this.server = server;
        other = new Other(server);
        group = "clients-dubbo-" + Long.toHexString(ProcessHandle.current().pid())
                + Long.toHexString(System.currentTimeMillis() & 0xFFFFFF);
    }

    /** The service under which Dubbo registers, and where it looks: a name with colons. */
    String providers() {
        return providers(group);
    }

    static String providers(String group) {
        return "providers:" + Greeter.class.getName() + ":" + DubboApp.VERSION + ":" + group;
    }

    String consumers() {
        return "consumers:" + Greeter.class.getName() + ":" + DubboApp.VERSION + ":" + group;
    }

    synchronized void start() throws Exception {
        if (fault == null && greeter == null) {
            try {
                // Without warming up: Dubbo raises the weight of a new provider over ten minutes.
                light = provider(group, "weight=1", "warmup=1", "note=" + NOTE);
                heavy = provider(group, "weight=9", "warmup=1");
                greeter = DubboApp.consume(server, group);
                light.port();
                heavy.port();
            } catch (Exception cannotStart) {
                fault = cannotStart;
            }
        }
        if (fault != null) {
            throw fault;
        }
    }

    Child provider(String group, String... parameters) throws Exception {
        List<String> arguments = new ArrayList<>(List.of(server, group));
        arguments.addAll(Arrays.asList(parameters));
        Child child = Child.start(DubboApp.class, arguments);
        children.add(child);
        return child;
    }

    Child light() throws Exception {
        start();
        return light;
    }

    Child heavy() throws Exception {
        start();
        return heavy;
    }

    /** The providers that the consumer was told of last, each as its port and its parameters. */
    Map<Integer, Map<String, String>> known() throws Exception {
        start();
        Map<Integer, Map<String, String>> found = new TreeMap<>();
        for (Registry registry : AbstractRegistryFactory.getRegistries()) {
            for (Map<String, List<URL>> told : ((AbstractRegistry) registry).getNotified().values()) {
                for (URL url : told.getOrDefault("providers", List.of())) {
                    if (url.getProtocol().equals("dubbo")) { // another says that there are none
                        found.put(url.getPort(), url.getParameters());
                    }
                }
            }
        }
        return found;
    }

    /** The port of the provider that the balancer of the consumer chose for one call. */
    int call() throws Exception {
        start();
        String greeting = greeter.greet("you");
        if (!greeting.startsWith("hello you from ")) {
            throw new Wrong("hello you from PORT", greeting);
        }
        return Integer.parseInt(greeting.substring("hello you from ".length()));
    }

    /**
     * What is listed under a name, with no other metadata than these. Under which address, Dubbo finds out by itself: it
     * can't be told a loopback one.
     */
    List<Instance> listed(String service, Set<String> names) throws Exception {
        List<Instance> instances = other.instances(service);
        for (Instance instance : instances) {
            Map<String, String> kept = new HashMap<>(instance.getMetadata());
            kept.keySet().retainAll(names);
            instance.setMetadata(kept);
            instance.setIp(Other.IP);
        }
        return instances;
    }

    static Instance instance(int port, Map<String, String> metadata) {
        Instance instance = new Instance();
        instance.setIp(Other.IP);
        instance.setPort(port);
        instance.setClusterName("DEFAULT");
        instance.setMetadata(metadata);
        return instance;
    }

    /** Takes away the description that Dubbo has left, if the server keeps configurations at all. */
    void forgetDescription(String group) throws Exception {
        String id = String.join(":", Greeter.class.getName(), DubboApp.VERSION, group, "provider", group);
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + server + "/nacos/v1/cs/configs?group=dubbo&dataId="
                        + URLEncoder.encode(id, StandardCharsets.UTF_8)))
                .DELETE().timeout(Duration.ofSeconds(5)).build();
        HttpClient.newHttpClient().send(request, BodyHandlers.discarding());
    }

    @Override
    public void close() throws Exception {
        for (Child child : children) {
            child.kill();
        }
        if (greeter != null) {
            for (Instance consumer : other.instances(consumers())) {
                other.deregister(consumers(), consumer);
            }
        }
    }
}
