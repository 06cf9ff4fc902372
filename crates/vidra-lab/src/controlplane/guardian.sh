# Starts the servers of one control plane and ends them when the owner is gone.
#
# The owner talks to it line by line:   start NAME | signal NAME SIGNAL | wait NAME
# and gets one line for each:           PID        | ok                 | STATUS
# When standard input closes, whatever the reason, every server is killed and the directory
# removed. Killing without asking is right: nothing in the directory is kept.
directory=$1
cd "$directory" || exit 1

finish() {
    trap '' HUP INT TERM
    for name in controller_manager apiserver etcd; do
        eval "pid=\$pid_$name"
        [ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null
    done
    wait
    cd / && rm -rf "$directory"
    exit 0
}
trap finish EXIT
trap 'exit 0' HUP INT TERM
# An owner that died before it read its answer must not take us along.
trap : PIPE

pid_etcd= pid_apiserver= pid_controller_manager=
while read -r verb name argument; do
    eval "pid=\$pid_$name"
    case $verb in
    start)
        /bin/sh "$directory/$name.sh" </dev/null >>"$directory/$name.log" 2>&1 &
        eval "pid_$name=$!"
        echo "$!"
        ;;
    signal)
        if kill "-$argument" "$pid" 2>/dev/null; then echo ok; else echo gone; fi
        ;;
    wait)
        wait "$pid" 2>/dev/null
        status=$?
        eval "pid_$name="
        echo "$status"
        ;;
    esac
done
