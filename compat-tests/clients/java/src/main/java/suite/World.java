package suite;

import com.alibaba.nacos.api.exception.NacosException;
import com.alibaba.nacos.api.naming.NamingFactory;
import com.alibaba.nacos.api.naming.NamingService;
import com.alibaba.nacos.api.naming.pojo.Instance;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/** The SDK's side: its clients, and what must be removed in the end. */
final class World {
    static final Map<String, String> METADATA = Map.of("zone", "a b", "note", "ü=1&2+3%", "empty", "");

    final String server;
    final Other other;
    final NamingService sdk;
    final String runId = Long.toHexString(ProcessHandle.current().pid())
            + Long.toHexString(System.currentTimeMillis() & 0xFFFFFF);

    private final List<Map.Entry<String, Instance>> persistent = Collections.synchronizedList(new ArrayList<>());

    World(String server) throws NacosException {
        this.server = server;
        other = new Other(server);
        sdk = client("public");
    }

    Properties properties(String namespace) {
        Properties properties = new Properties();
        properties.setProperty("serverAddr", server);
        properties.setProperty("namespace", namespace);
        return properties;
    }

    NamingService client(String namespace) throws NacosException {
        return NamingFactory.createNamingService(properties(namespace));
    }

    String service(String check) {
        return "clients-java-" + runId + "-" + check;
    }

    static Instance instance(String ip, int port, Map<String, String> metadata) {
        Instance instance = new Instance();
        instance.setIp(ip);
        instance.setPort(port);
        instance.setClusterName("DEFAULT");
        instance.setMetadata(new HashMap<>(metadata));
        return instance;
    }

    static Instance at(int port) {
        return instance(Other.IP, port, Map.of());
    }

    static Instance weighted(int port, double weight, Map<String, String> metadata) {
        Instance instance = instance(Other.IP, port, metadata);
        instance.setWeight(weight);
        return instance;
    }

    static Instance unhealthy(Instance instance) {
        Instance ill = instance(instance.getIp(), instance.getPort(), instance.getMetadata());
        ill.setHealthy(false);
        return ill;
    }

    /** Registers by the SDK; in the list that it gives, a copy stays as it was asked for. */
    void register(String service, Instance instance) throws NacosException {
        Instance copy = instance(instance.getIp(), instance.getPort(), instance.getMetadata());
        copy.setWeight(instance.getWeight());
        copy.setEphemeral(instance.isEphemeral());
        sdk.registerInstance(service, copy);
        if (!instance.isEphemeral()) {
            persistent.add(Map.entry(service, instance));
        }
    }

    /** Registers a persistent instance whose port answers the server's health checks. */
    Instance registerPersistent(String service) throws Exception {
        ServerSocket listener = new ServerSocket(0, 50, InetAddress.getByName(Other.IP));
        Thread acceptor = new Thread(() -> acceptForEver(listener));
        acceptor.setDaemon(true);
        acceptor.start();
        Instance instance = instance(Other.IP, listener.getLocalPort(), METADATA);
        instance.setEphemeral(false);
        register(service, instance);
        return instance;
    }

    private static void acceptForEver(ServerSocket listener) {
        try {
            while (true) {
                listener.accept().close();
            }
        } catch (IOException fault) {
            throw new UncheckedIOException(fault);
        }
    }

    void cleanUp() throws Exception {
        for (Map.Entry<String, Instance> left : persistent) {
            other.deregister(left.getKey(), left.getValue());
        }
    }
}
