//! Help of the commands about nodes.

use insta::assert_snapshot;

use super::home;

#[test]
fn help_of_node() {
    assert_snapshot!(home().run(["node", "--help"]), @"
    status: 0
    ----- stdout -----
    Manage the nodes of a cluster, while it runs

    Usage: flotilla node [OPTIONS] <COMMAND>

    Commands:
      add      Add workers or control planes to a cluster, while it runs [alias: create]
      start    Start nodes that were stopped
      stop     Stop nodes; they keep their state and stay in the cluster's list
      delete   Delete nodes: their pods move, they leave the cluster, machine and data are gone [alias:
               remove]
      update   Change a node: its size, labels, taints, mounts and ports
      list     List the nodes of a cluster [alias: ls]
      status   Show what runs in one node, or in all
      ip       Print the address of a node
      ssh      Open a shell in a node, or run a command there
      logs     Show the logs of a node: kubelet, containerd, control plane
      cp       Copy files and folders into a node, out of it, or to another node
      pause    Freeze Kubernetes in one node
      unpause  Thaw what `node pause` froze
      help     Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help

    Global options:
      -p, --profile <NAME>     Name of the cluster [default: flotilla]
      -v, --verbosity <LEVEL>  Print what is done: 1 every step and program, 4 also requests to the API,
                               7 everything [alias: --v]
          --verbose            The same as `-v 1`

    Examples:
      flotilla node add                    one more worker
      flotilla node list
      flotilla node update m02 --labels disk=ssd
      flotilla node stop m02               it stays in the cluster, NotReady
      flotilla node delete m02             drained, removed, gone
    ----- stderr -----
    ");
}

#[test]
fn short_help_of_node_add() {
    assert_snapshot!(home().run(["node", "add", "-h"]), @"
    status: 0
    ----- stdout -----
    Add workers or control planes to a cluster, while it runs

    Usage: flotilla node add [OPTIONS] [NAME]

    Arguments:
      [NAME]  Name of the node [default: the cluster's name and a number]

    Options:
          --name <NAME>
              The same, as a flag
          --count <K>
              How many; with a name they are NAME-1, NAME-2, … [default: 1]
          --control-plane
              Make it a control plane
          --cpus <N>
              Processors: a number, `max` or `no-limit`
      -m, --memory <SIZE>
              Memory: megabytes, or with a unit (3g, 3Gi), `max` or `no-limit`
          --disk-size <SIZE>
              Disk, for drivers whose machines have their own
          --labels <KEY=VALUE,…>
              Labels of the node
          --taints <KEY=VALUE:EFFECT,…>
              Taints of the node
          --mount <SRC:DST[:ro]>
              Folder of this host to show in the node; may be repeated
          --port <[IP:]HOST:NODE[/udp]>
              Port of this host that leads to the node; may be repeated [alias: --publish]
          --kubernetes-version <VERSION>
              Kubernetes version of its kubelet [default: the cluster's]
          --bundle <VERSION|DIGEST>
              Bundle that it is made from: a version, or the first digits of a digest [alias: --image]
          --extra-config <kubelet.KEY=VALUE>
              Setting of its kubelet, over the cluster's; may be repeated [alias: --extra-opts]
          --feature-gates <GATE=BOOL,…>
              Feature gates of its kubelet, over the cluster's
          --container-runtime <NAME>
              Container runtime: every node has containerd
          --no-wait-lock
              Fail at once if another command changes the cluster, instead of waiting for it
      -o, --output <OUTPUT>
              Output format [default: text] [possible values: text, json]
      -h, --help
              Print help

    Global options:
      -p, --profile <NAME>     Name of the cluster [default: flotilla]
      -v, --verbosity <LEVEL>  Print what is done: 1 every step and program, 4 also requests to the API,
                               7 everything [alias: --v]
          --verbose            The same as `-v 1`

    Examples:
      flotilla node add
      flotilla node add big --cpus 2 --memory 4g --labels disk=ssd
      flotilla node add --count 3 --taints dedicated=batch:NoSchedule
      flotilla node add --control-plane --count 2
      flotilla node add old --kubernetes-version v1.36.4
      flotilla node add web --mount /srv/www:/www:ro --port 8080:30080
    ----- stderr -----
    ");
}

#[test]
fn help_of_node_update() {
    assert_snapshot!(home().run(["node", "update", "--help"]), @"
    status: 0
    ----- stdout -----
    Change a node: its size, labels, taints, mounts and ports

    Labels, taints and ports change at once; processors, memory and mounts need a restart of that node,
    which is told and asked for first. What is not named stays. With `-` behind it something goes: a
    label or taint by its key (`disk-`), a mount by its folder in the node (`/www-`), a port by the
    host's (`8080-`).

    Usage: flotilla node update [OPTIONS] <NAME>

    Arguments:
      <NAME>
              Node, by its full or short name

    Options:
          --cpus <N>
              Processors: a number, `max` or `no-limit`

      -m, --memory <SIZE>
              Memory: megabytes, or with a unit (3g, 3Gi), `max` or `no-limit`

          --disk-size <SIZE>
              Disk, for drivers whose machines have their own

          --labels <KEY=VALUE,…>
              Labels of the node

          --taints <KEY=VALUE:EFFECT,…>
              Taints of the node

          --mount <SRC:DST[:ro]>
              Folder of this host to show in the node; may be repeated

          --port <[IP:]HOST:NODE[/udp]>
              Port of this host that leads to the node; may be repeated
              
              [alias: --publish]

          --dry-run
              Say what would change, and change nothing

      -y, --yes
              Do not ask

          --force
              Restart a control plane although etcd has no majority meanwhile

          --no-wait-lock
              Fail at once if another command changes the cluster, instead of waiting for it

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
      flotilla node update m02 --labels disk=ssd,zone-
      flotilla node update m02 --taints dedicated=batch:NoSchedule
      flotilla node update m02 --port 8080:30080 --port 9090-
      flotilla node update m02 --memory 4g --yes
    ----- stderr -----
    ");
}

#[test]
fn help_of_cp() {
    assert_snapshot!(home().run(["cp", "--help"]), @"
    status: 0
    ----- stdout -----
    Copy files and folders into a node, out of it, or from node to node

    `NODE:` before a path says where it is; a path without it is on this host, but if neither path names
    a node, the target is in the primary one. Paths in nodes begin at /root. Folders are copied with all
    in them, into the target if that is a folder already. Modes are kept. `-` is standard input or
    output, for one file.

    Usage: flotilla cp [OPTIONS] <[NODE:]SRC> <[NODE:]DST>

    Arguments:
      <[NODE:]SRC>
              What to copy

      <[NODE:]DST>
              Where it is to be

    Options:
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
      flotilla cp app.conf /etc/app.conf            to the primary node
      flotilla cp ./images m02:/var/tmp             a folder
      flotilla cp m02:/var/log/flotilla ./logs
      flotilla cp m02:/etc/hosts m03:/tmp/hosts
      flotilla cp m02:/etc/hosts - | grep demo      to standard output
    ----- stderr -----
    ");
    assert_snapshot!(home().run(["node", "cp", "--help"]), @"
    status: 0
    ----- stdout -----
    Copy files and folders into a node, out of it, or to another node

    As `flotilla cp`. With NAME, a path that begins with `:` is in that node; if none does, the last one
    is.

    Usage: flotilla node cp [OPTIONS] [NAME] <SRC> <DST>

    Arguments:
      <NAME> <SRC> [DST]...
              Node, by its full or short name; then from where, then to where

    Options:
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
      flotilla node cp m02 app.conf /etc/app.conf
      flotilla node cp m02 :/var/log/flotilla ./logs
      flotilla node cp m02:/etc/hosts m03:/tmp/hosts
    ----- stderr -----
    ");
}

#[test]
fn short_help_of_node_pause() {
    assert_snapshot!(home().run(["node", "pause", "-h"]), @"
    status: 0
    ----- stdout -----
    Freeze Kubernetes in one node

    Usage: flotilla node pause [OPTIONS] <NAME>

    Arguments:
      <NAME>  Node, by its full or short name

    Options:
          --force                     Pause a control plane even if etcd loses quorum
      -n, --namespaces <NAMESPACE,…>  Namespaces whose containers are meant [default: kube-system
                                      kubernetes-dashboard istio-operator]
      -A, --all-namespaces            The containers of all namespaces
          --no-wait-lock              Fail at once if another command changes the cluster, instead of
                                      waiting for it
      -o, --output <OUTPUT>           Output format [default: text] [possible values: text, json]
      -h, --help                      Print help (see more with '--help')

    Global options:
      -p, --profile <NAME>     Name of the cluster [default: flotilla]
      -v, --verbosity <LEVEL>  Print what is done: 1 every step and program, 4 also requests to the API,
                               7 everything [alias: --v]
          --verbose            The same as `-v 1`

    Examples:
      flotilla node pause m02
      flotilla node pause m02 -A      all pods there as well
    ----- stderr -----
    ");
}
