package suite;

import com.alibaba.nacos.api.naming.pojo.Instance;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/** The second client: plain HTTP, no SDK. It makes the changes that the SDK must notice and sees what the SDK did. */
final class Other {
    static final String IP = "127.0.0.1";

    private static final Duration REQUEST_LIMIT = Duration.ofSeconds(5);
    private static final ObjectMapper JSON =
            new ObjectMapper().disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES);

    private final String base;
    private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    Other(String server) {
        base = "http://" + server + "/nacos/v1/ns";
    }

    private HttpResponse<String> send(String method, String path, Map<String, String> parameters)
            throws IOException, InterruptedException {
        String query = parameters.entrySet().stream()
                .map(pair -> pair.getKey() + "=" + URLEncoder.encode(pair.getValue(), StandardCharsets.UTF_8))
                .collect(Collectors.joining("&"));
        HttpRequest request = HttpRequest.newBuilder(URI.create(base + path + "?" + query))
                .method(method, HttpRequest.BodyPublishers.noBody())
                .timeout(REQUEST_LIMIT)
                .build();
        return client.send(request, BodyHandlers.ofString());
    }

    /** The answer's text; any status but 200 is a fault. */
    private String call(String method, String path, Map<String, String> parameters) throws Exception {
        HttpResponse<String> answer = send(method, path, parameters);
        if (answer.statusCode() != 200) {
            throw new Wrong("status 200 for " + method + " " + path, answer.statusCode() + " " + answer.body());
        }
        return answer.body();
    }

    void waitForServer() throws Exception {
        long end = System.nanoTime() + Duration.ofSeconds(10).toNanos();
        while (true) {
            try {
                send("GET", "/operator/metrics", Map.of());
                return; // it answers; what it answers is the checks' business
            } catch (IOException unreachable) {
                if (System.nanoTime() > end) {
                    throw unreachable;
                }
                Thread.sleep(200);
            }
        }
    }

    private void instance(String method, String service, Instance instance) throws Exception {
        Map<String, String> parameters = new TreeMap<>();
        parameters.put("serviceName", service);
        parameters.put("ip", instance.getIp());
        parameters.put("port", Integer.toString(instance.getPort()));
        parameters.put("clusterName", instance.getClusterName());
        parameters.put("weight", Double.toString(instance.getWeight()));
        parameters.put("healthy", Boolean.toString(instance.isHealthy()));
        parameters.put("ephemeral", Boolean.toString(instance.isEphemeral()));
        parameters.put("metadata", JSON.writeValueAsString(instance.getMetadata()));
        call(method, "/instance", parameters);
    }

    void register(String service, Instance instance) throws Exception {
        instance("POST", service, instance);
    }

    void deregister(String service, Instance instance) throws Exception {
        instance("DELETE", service, instance);
    }

    /** Changes the metadata and nothing else. */
    void patchMetadata(String service, Instance instance) throws Exception {
        call("PATCH", "/instance", Map.of("serviceName", service, "ip", instance.getIp(),
                "port", Integer.toString(instance.getPort()),
                "metadata", JSON.writeValueAsString(instance.getMetadata())));
    }

    /** The instances of a service in the default group and namespace. */
    List<Instance> instances(String service) throws Exception {
        JsonNode hosts = JSON.readTree(call("GET", "/instance/list", Map.of("serviceName", service))).get("hosts");
        List<Instance> instances = new ArrayList<>();
        for (JsonNode host : hosts) {
            instances.add(JSON.treeToValue(host, Instance.class));
        }
        return instances;
    }

    /** The same as comparable lines, sorted. */
    List<String> lines(String service) throws Exception {
        return lines(instances(service));
    }

    static List<String> lines(Instance... instances) {
        return lines(Arrays.asList(instances));
    }

    static List<String> lines(List<Instance> instances) {
        return instances.stream().map(Other::line).sorted().toList();
    }

    /** One instance with all that a client can set or see. */
    private static String line(Instance i) {
        return String.format("%s:%d %s weight %s healthy %s enabled %s ephemeral %s %s", i.getIp(), i.getPort(),
                i.getClusterName(), i.getWeight(), i.isHealthy(), i.isEnabled(), i.isEphemeral(),
                new TreeMap<>(i.getMetadata()));
    }
}
