use insta::assert_snapshot;

use super::home;

/// Every command, as it is typed.
const COMMANDS: [&[&str]; 54] = [
    &[],
    &["start"],
    &["status"],
    &["list"],
    &["profile"],
    &["profile", "list"],
    &["get"],
    &["get", "clusters"],
    &["stop"],
    &["delete"],
    &["apply"],
    &["diff"],
    &["export"],
    &["schema"],
    &["pause"],
    &["unpause"],
    &["node"],
    &["node", "add"],
    &["node", "start"],
    &["node", "stop"],
    &["node", "delete"],
    &["node", "update"],
    &["node", "list"],
    &["node", "status"],
    &["node", "ip"],
    &["node", "ssh"],
    &["node", "logs"],
    &["node", "cp"],
    &["node", "pause"],
    &["node", "unpause"],
    &["etcd"],
    &["etcd", "status"],
    &["etcd", "snapshot"],
    &["etcd", "snapshot", "save"],
    &["etcd", "snapshot", "restore"],
    &["recover"],
    &["kubectl"],
    &["ssh"],
    &["logs"],
    &["cp"],
    &["ip"],
    &["doctor"],
    &["update-context"],
    &["bundle"],
    &["bundle", "build"],
    &["bundle", "clean"],
    &["bundle", "list"],
    &["bundle", "show"],
    &["bundle", "verify"],
    &["bundle", "remove"],
    &["bundle", "export"],
    &["bundle", "import"],
    &["version"],
    &["completion"],
];

#[test]
fn every_command_explains_itself_with_examples() {
    let home = home();
    for command in COMMANDS {
        for flag in ["-h", "--help"] {
            let ran = home.run(command.iter().chain([&flag])).success();
            assert!(ran.stdout.contains("\nUsage: flotilla "), "{command:?} {ran}");
            assert!(ran.stdout.contains("\nExamples:\n  "), "{command:?} {ran}");
            assert_eq!(ran.stderr, "");
        }
    }
    assert!(home.files().is_empty());
}

#[test]
fn help_fits_a_narrow_terminal_and_breaks_no_example() {
    let home = home().with_env("COLUMNS", "80");
    for command in COMMANDS {
        let help = home.run(command.iter().chain([&"-h"])).success().stdout;
        let (_, examples) = help.split_once("\nExamples:\n").unwrap();
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{command:?}: {line}");
        }
        for line in examples.lines() {
            let begins = ["  flotilla ", "  source ", "  curl "].iter().any(|word| line.starts_with(word));
            assert!(begins, "{command:?} has a broken example: {line}");
        }
    }
}

#[test]
fn no_command_is_missing_here() {
    let home = home();
    let mut todo: Vec<Vec<String>> = vec![vec![]];
    let mut found = Vec::new();
    while let Some(command) = todo.pop() {
        let help = home.run(command.iter().map(String::as_str).chain(["--help"])).success().stdout;
        let listed = help.split("\nCommands:\n").nth(1).unwrap_or_default();
        for line in listed.lines().take_while(|line| !line.is_empty()) {
            let name = line.split_whitespace().next().unwrap();
            let goes_on = line.starts_with("   ");
            if name != "help" && !goes_on {
                todo.push(command.iter().cloned().chain([name.to_owned()]).collect());
            }
        }
        found.push(command);
    }
    found.sort();
    let mut known = COMMANDS.map(<[&str]>::to_vec).to_vec();
    known.sort();
    assert_eq!(found, known);
}

#[test]
fn without_arguments_there_is_help() {
    let home = home();
    let ran = home.run([""; 0]);
    assert_eq!(ran.to_string(), home.run(["--help"]).to_string());
    assert_eq!(home.run(["bundle"]).to_string(), home.run(["bundle", "--help"]).to_string());
    assert_snapshot!(ran, @"
    status: 0
    ----- stdout -----
    A real multi-node Kubernetes cluster on your own machine, in seconds

    Usage: flotilla [OPTIONS] <COMMAND>

    Commands:
      start           Start a cluster: make it, power it on, or find that it runs
      status          Show what runs
      list            List the clusters of this host [alias: ls]
      stop            Stop a cluster; it keeps everything it holds
      delete          Delete a cluster with all it holds
      apply           Make a cluster as its file says, while it runs
      diff            Show how a cluster differs from its file
      export          Print a cluster as a file that makes the same one
      schema          Print the JSON schema of the cluster's file, for editors
      pause           Freeze Kubernetes; pods of your own go on
      unpause         Thaw what `pause` froze
      node            Manage the nodes of a cluster, while it runs
      profile         List clusters as minikube does
      get             List clusters as kind does
      etcd            Show, save and restore what the cluster's API holds
      recover         Rebuild etcd after permanent loss of quorum
      kubectl         Run the cluster's own kubectl against it
      ssh             Open a shell in a node, or run a command there
      logs            Show the logs of a node: kubelet, containerd, control plane
      cp              Copy files and folders into a node, out of it, or from node to node
      ip              Print the address of a node
      doctor          Check what this host lacks or has in the way, and tell the cure
      update-context  Make the cluster the current context of your kubeconfig again
      bundle          Manage bundles: everything that a node needs, in one folder
      version         Print the version of flotilla
      completion      Print a script that gives your shell tab completion
      help            Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Global options:
      -p, --profile <NAME>     Name of the cluster [default: flotilla]
      -v, --verbosity <LEVEL>  Print what is done: 1 every step and program, 4 also requests to the API,
                               7 everything [alias: --v]
          --verbose            The same as `-v 1`

    Examples:
      flotilla start                         a Kubernetes cluster on this machine
      flotilla kubectl -- get pods -A        use it (your own kubectl can, too)
      flotilla stop                          power it off; it keeps all it holds
      flotilla delete                        remove it
      flotilla doctor                        what this host lacks or has in the way
      source <(flotilla completion bash)     tab completion for this shell
    ----- stderr -----
    ");
}

#[test]
fn short_help_of_start() {
    assert_snapshot!(home().run(["start", "-h"]), @"
    status: 0
    ----- stdout -----
    Start a cluster: make it, power it on, or find that it runs

    Usage: flotilla start [OPTIONS]

    Options:
      -f, --file <FILE>
              File that describes the cluster; `-` is standard input
      -n, --nodes <N>
              How many nodes, control planes included; the others are workers [default: 1]
          --control-planes <N>
              How many control planes; three bear the loss of one [default: 1]
          --ha
              Three control planes
          --taint-control-planes
              Let only pods come to control planes that tolerate it
          --cpus <N>
              Processors of the node: a number, `max` or `no-limit` [default: no-limit]
      -m, --memory <SIZE>
              Memory of the node: 3072 (megabytes), 3g, `max` or `no-limit` [default: no-limit]
          --disk-size <SIZE>
              Disk of the node; native nodes share the host's whatever it says
          --kubernetes-version <VERSION>
              Kubernetes version, `stable` or `latest` [default: the newest that flotilla knows]
      -d, --driver <DRIVER>
              Who makes the machines [default: native] [possible values: native]
          --subnet <CIDR>
              Addresses of the nodes [default: a free /24 of 10.213.0.0/16]
          --pod-subnet <CIDR>
              Addresses of the pods [default: a free one of 10.244.0.0/16, 10.245.0.0/16, …]
          --node-pod-prefix <PREFIX>
              Size of each node's range of pod addresses, as a prefix [default: 24]
          --cni <NAME|PATH>
              Pod network: flotilla, none (you install one), flannel, or a manifest's path [default:
              flotilla] [alias: --cni-plugin]
          --mount <SRC:DST[:ro]>
              Folder of this host to show in every node; may be repeated
          --port <[IP:]HOST:NODE[/udp]>
              Port of this host that leads to the control plane; may be repeated [alias: --ports]
          --service-cluster-ip-range <CIDR>
              Addresses of the services [default: 10.96.0.0/12]
          --dns-domain <DOMAIN>
              Domain of the cluster's own names [default: cluster.local]
          --extra-config <COMPONENT.KEY=VALUE>
              Setting of a Kubernetes component, as component.key=value; may be repeated [alias:
              --extra-opts]
          --feature-gates <GATE=BOOL,…>
              Feature gates of all components
          --apiserver-names <NAME,…>
              More names for the API server's certificate
          --apiserver-ips <IP,…>
              More addresses for the API server's certificate
          --wait <all|none|LIST>
              What must hold before it returns: all, none, or some of apiserver, node_ready, default_sa,
              system_pods, apps_running, kubelet [default: apiserver,node_ready,default_sa: a pod can
              run]
          --wait-timeout <TIME>
              How long that may take [default: 6m]
          --dry-run
              Say what would be done, and change nothing
          --force
              Go on although the host checks found something fatal
      -y, --yes
              Build a bundle that is missing without asking
          --container-runtime <NAME>
              Container runtime: every node has containerd
          --no-wait-lock
              Fail at once if another command changes the cluster, instead of waiting for it
      -o, --output <OUTPUT>
              Output format [default: text] [possible values: text, json]
      -h, --help
              Print help (see more with '--help')

    Global options:
      -p, --profile <NAME>     Name of the cluster [default: flotilla]
      -v, --verbosity <LEVEL>  Print what is done: 1 every step and program, 4 also requests to the API,
                               7 everything [alias: --v]
          --verbose            The same as `-v 1`

    Examples:
      flotilla start                                a cluster named flotilla
      flotilla start --nodes 3                      one control plane, two workers
      flotilla start --ha --nodes 4                 three control planes, a worker
      flotilla start -f cluster.yaml                as a file describes it
      flotilla start -p demo --cpus 2 --memory 3g   another one beside it, bounded
      flotilla start --extra-config kubelet.max-pods=50
      flotilla start --wait all                     until all system pods are ready
      flotilla start --dry-run                      what would be done
    ----- stderr -----
    ");
}

#[test]
fn help_of_ssh() {
    assert_snapshot!(home().run(["ssh", "--help"]), @"
    status: 0
    ----- stdout -----
    Open a shell in a node, or run a command there

    Standard input and output are passed byte for byte, and the exit status is the command's. Several
    words are one line for the node's shell, as with ssh.

    Usage: flotilla ssh [OPTIONS] [[NODE] COMMAND]...

    Arguments:
      [[NODE] COMMAND]...
              Command to run there; the first word may be the node's name

    Options:
      -n, --node <NODE>
              Node to go to [default: the primary one]

      -h, --help
              Print help (see a summary with '-h')

    Global options:
      -p, --profile <NAME>
              Name of the cluster [default: flotilla]

      -v, --verbosity <LEVEL>
              Print what is done: 1 every step and program, 4 also requests to the API, 7 everything
              
              [alias: --v]

          --verbose
              The same as `-v 1`

    Examples:
      flotilla ssh
      flotilla ssh m02
      flotilla ssh -- crictl ps
      flotilla ssh -- 'cat > /tmp/file' < file
    ----- stderr -----
    ");
}

#[test]
fn help_of_bundle() {
    assert_snapshot!(home().run(["bundle", "--help"]), @"
    status: 0
    ----- stdout -----
    Manage bundles: everything that a node needs, in one folder

    Usage: flotilla bundle [OPTIONS] <COMMAND>

    Commands:
      build   Build a bundle, or find that it is there
      list    List the bundles on this machine
      show    Show what is in a bundle, where it came from and where its bytes go
      verify  Read every byte and name each file that is not as it was made
      remove  Remove a bundle that no cluster uses
      clean   Free the disk of caches, downloads and parts that no bundle consists of
      export  Write a bundle to one file, for a machine without a network
      import  Take in a bundle that was exported elsewhere
      help    Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help

    Global options:
      -p, --profile <NAME>     Name of the cluster [default: flotilla]
      -v, --verbosity <LEVEL>  Print what is done: 1 every step and program, 4 also requests to the API,
                               7 everything [alias: --v]
          --verbose            The same as `-v 1`

    Examples:
      flotilla bundle build                        build the newest known Kubernetes
      flotilla bundle show v1.37.1                 what is in it, and from where
      flotilla bundle export v1.37.1 k8s.tar.zst   for a machine without a network
    ----- stderr -----
    ");
}

#[test]
fn help_of_bundle_build() {
    assert_snapshot!(home().run(["bundle", "build", "--help"]), @"
    status: 0
    ----- stdout -----
    Build a bundle, or find that it is there

    The first build takes about 15 minutes on two cores and needs `go`, `gcc` and `apt` (nothing is
    installed on the host). Interrupted or killed, it goes on from what was finished when it is run
    again.

    Usage: flotilla bundle build [OPTIONS]

    Options:
          --kubernetes-version <VERSION>
              Kubernetes version of the bundle [default: the newest that flotilla knows]

          --source <SOURCE>
              Where the parts come from

              Possible values:
              - auto:  A bundle that is there, else the first source that works here
              - build: Built from pinned source with this machine's go, gcc and apt
              
              [default: auto]

          --kubernetes-source <PATH>
              Build Kubernetes from this checkout instead of the pinned version

          --keep-cache
              Keep what the compilers have cached (7 GB) for another build

      -o, --output <OUTPUT>
              Output format
              
              [default: text]
              [possible values: text, json]

      -h, --help
              Print help (see a summary with '-h')

    Global options:
      -p, --profile <NAME>
              Name of the cluster [default: flotilla]

      -v, --verbosity <LEVEL>
              Print what is done: 1 every step and program, 4 also requests to the API, 7 everything
              
              [alias: --v]

          --verbose
              The same as `-v 1`

    Examples:
      flotilla bundle build
      flotilla bundle build --kubernetes-version v1.36.4
      flotilla bundle build --kubernetes-source ~/src/kubernetes
    ----- stderr -----
    ");
}

#[test]
fn short_help_of_bundle_build() {
    assert_snapshot!(home().run(["bundle", "build", "-h"]), @"
    status: 0
    ----- stdout -----
    Build a bundle, or find that it is there

    Usage: flotilla bundle build [OPTIONS]

    Options:
          --kubernetes-version <VERSION>  Kubernetes version of the bundle [default: the newest that
                                          flotilla knows]
          --source <SOURCE>               Where the parts come from [default: auto] [possible values:
                                          auto, build]
          --kubernetes-source <PATH>      Build Kubernetes from this checkout instead of the pinned
                                          version
          --keep-cache                    Keep what the compilers have cached (7 GB) for another build
      -o, --output <OUTPUT>               Output format [default: text] [possible values: text, json]
      -h, --help                          Print help (see more with '--help')

    Global options:
      -p, --profile <NAME>     Name of the cluster [default: flotilla]
      -v, --verbosity <LEVEL>  Print what is done: 1 every step and program, 4 also requests to the API,
                               7 everything [alias: --v]
          --verbose            The same as `-v 1`

    Examples:
      flotilla bundle build
      flotilla bundle build --kubernetes-version v1.36.4
      flotilla bundle build --kubernetes-source ~/src/kubernetes
    ----- stderr -----
    ");
}

#[test]
fn help_of_bundle_list() {
    assert_snapshot!(home().run(["bundle", "list", "--help"]), @"
    status: 0
    ----- stdout -----
    List the bundles on this machine

    Usage: flotilla bundle list [OPTIONS]

    Options:
      -o, --output <OUTPUT>  Output format [default: text] [possible values: text, json]
      -h, --help             Print help

    Global options:
      -p, --profile <NAME>     Name of the cluster [default: flotilla]
      -v, --verbosity <LEVEL>  Print what is done: 1 every step and program, 4 also requests to the API,
                               7 everything [alias: --v]
          --verbose            The same as `-v 1`

    Examples:
      flotilla bundle list
      flotilla bundle list -o json | jq -r '.[].digest'
    ----- stderr -----
    ");
}

#[test]
fn help_of_bundle_show() {
    assert_snapshot!(home().run(["bundle", "show", "--help"]), @"
    status: 0
    ----- stdout -----
    Show what is in a bundle, where it came from and where its bytes go

    Usage: flotilla bundle show [OPTIONS] <VERSION|DIGEST>

    Arguments:
      <VERSION|DIGEST>  Kubernetes version, or the first digits of a digest

    Options:
      -o, --output <OUTPUT>  Output format [default: text] [possible values: text, json]
      -h, --help             Print help

    Global options:
      -p, --profile <NAME>     Name of the cluster [default: flotilla]
      -v, --verbosity <LEVEL>  Print what is done: 1 every step and program, 4 also requests to the API,
                               7 everything [alias: --v]
          --verbose            The same as `-v 1`

    Examples:
      flotilla bundle show v1.37.1
      flotilla bundle show [DIGEST] -o json | jq .images
    ----- stderr -----
    ");
}

#[test]
fn help_of_bundle_verify() {
    assert_snapshot!(home().run(["bundle", "verify", "--help"]), @"
    status: 0
    ----- stdout -----
    Read every byte and name each file that is not as it was made

    Usage: flotilla bundle verify [OPTIONS] <VERSION|DIGEST>

    Arguments:
      <VERSION|DIGEST>  Kubernetes version, or the first digits of a digest

    Options:
      -o, --output <OUTPUT>  Output format [default: text] [possible values: text, json]
      -h, --help             Print help

    Global options:
      -p, --profile <NAME>     Name of the cluster [default: flotilla]
      -v, --verbosity <LEVEL>  Print what is done: 1 every step and program, 4 also requests to the API,
                               7 everything [alias: --v]
          --verbose            The same as `-v 1`

    Examples:
      flotilla bundle verify v1.37.1
      flotilla bundle verify [DIGEST] -o json
    ----- stderr -----
    ");
}

#[test]
fn help_of_bundle_remove() {
    assert_snapshot!(home().run(["bundle", "remove", "--help"]), @"
    status: 0
    ----- stdout -----
    Remove a bundle that no cluster uses

    Usage: flotilla bundle remove [OPTIONS] <VERSION|DIGEST>

    Arguments:
      <VERSION|DIGEST>  Kubernetes version, or the first digits of a digest

    Options:
      -o, --output <OUTPUT>  Output format [default: text] [possible values: text, json]
      -h, --help             Print help

    Global options:
      -p, --profile <NAME>     Name of the cluster [default: flotilla]
      -v, --verbosity <LEVEL>  Print what is done: 1 every step and program, 4 also requests to the API,
                               7 everything [alias: --v]
          --verbose            The same as `-v 1`

    Examples:
      flotilla bundle remove v1.36.4
      flotilla bundle remove [DIGEST]
    ----- stderr -----
    ");
}

#[test]
fn help_of_bundle_export() {
    assert_snapshot!(home().run(["bundle", "export", "--help"]), @"
    status: 0
    ----- stdout -----
    Write a bundle to one file, for a machine without a network

    Usage: flotilla bundle export [OPTIONS] <VERSION|DIGEST> <FILE>

    Arguments:
      <VERSION|DIGEST>  Kubernetes version, or the first digits of a digest
      <FILE>            File to write (a zstd-compressed tar)

    Options:
      -o, --output <OUTPUT>  Output format [default: text] [possible values: text, json]
      -h, --help             Print help

    Global options:
      -p, --profile <NAME>     Name of the cluster [default: flotilla]
      -v, --verbosity <LEVEL>  Print what is done: 1 every step and program, 4 also requests to the API,
                               7 everything [alias: --v]
          --verbose            The same as `-v 1`

    Examples:
      flotilla bundle export v1.37.1 kubernetes-v1.37.1.tar.zst
      flotilla bundle export [DIGEST] /media/stick/bundle.tar.zst
    ----- stderr -----
    ");
}

#[test]
fn help_of_bundle_import() {
    assert_snapshot!(home().run(["bundle", "import", "--help"]), @r#"
    status: 0
    ----- stdout -----
    Take in a bundle that was exported elsewhere

    Usage: flotilla bundle import [OPTIONS] <FILE>

    Arguments:
      <FILE>  File made by `flotilla bundle export`

    Options:
          --digest <SHA256>  Refuse any bundle but the one with this digest
      -o, --output <OUTPUT>  Output format [default: text] [possible values: text, json]
      -h, --help             Print help

    Global options:
      -p, --profile <NAME>     Name of the cluster [default: flotilla]
      -v, --verbosity <LEVEL>  Print what is done: 1 every step and program, 4 also requests to the API,
                               7 everything [alias: --v]
          --verbose            The same as `-v 1`

    Examples:
      flotilla bundle import kubernetes-v1.37.1.tar.zst
      flotilla bundle import bundle.tar.zst --digest "$(cat bundle.sha256)"
    ----- stderr -----
    "#);
}

#[test]
fn help_of_version() {
    assert_snapshot!(home().run(["version", "--help"]), @"
    status: 0
    ----- stdout -----
    Print the version of flotilla

    Usage: flotilla version [OPTIONS]

    Options:
          --short            Print the number alone
      -o, --output <OUTPUT>  Output format [default: text] [possible values: text, json]
      -h, --help             Print help

    Global options:
      -p, --profile <NAME>     Name of the cluster [default: flotilla]
      -v, --verbosity <LEVEL>  Print what is done: 1 every step and program, 4 also requests to the API,
                               7 everything [alias: --v]
          --verbose            The same as `-v 1`

    Examples:
      flotilla version
      flotilla version --short
      flotilla version -o json | jq -r .flotillaVersion
    ----- stderr -----
    ");
}

#[test]
fn help_of_completion() {
    assert_snapshot!(home().run(["completion", "--help"]), @r#"
    status: 0
    ----- stdout -----
    Print a script that gives your shell tab completion

    Usage: flotilla completion [OPTIONS] <SHELL>

    Arguments:
      <SHELL>  Shell to write it for [possible values: bash, zsh, fish]

    Options:
      -h, --help  Print help

    Global options:
      -p, --profile <NAME>     Name of the cluster [default: flotilla]
      -v, --verbosity <LEVEL>  Print what is done: 1 every step and program, 4 also requests to the API,
                               7 everything [alias: --v]
          --verbose            The same as `-v 1`

    Examples:
      source <(flotilla completion bash)
      flotilla completion zsh > "${fpath[1]}/_flotilla"
      flotilla completion fish > ~/.config/fish/completions/flotilla.fish
    ----- stderr -----
    "#);
}

#[test]
fn short_help_is_the_long_one_where_there_is_no_more_to_say() {
    let home = home();
    for command in COMMANDS {
        let help = |flag| home.run(command.iter().chain([&flag])).stdout;
        let has_more = help("-h").contains("(see more with '--help')");
        assert_eq!(help("-h") != help("--help"), has_more, "{command:?}");
    }
}
