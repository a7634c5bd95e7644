# Carries connections of one port of a sandbox to the host's proxy, and waits until it can.
import os, socket, sys, threading

def carry(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    try:
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass

def serve(client):
    proxy = socket.socket(socket.AF_UNIX)
    try:
        proxy.connect(sys.argv[1])
    except OSError:
        return client.close()
    threading.Thread(target=carry, args=(client, proxy), daemon=True).start()
    carry(proxy, client)

listener = socket.create_server(("127.0.0.1", int(sys.argv[2])))
if os.fork():
    os._exit(0)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
