"""The only code that creates, replaces or deletes output.

A dataset is written into a hidden folder beside its target. The folder is renamed to its final name
when every file in it is complete and on disk. After a power cut, on a disk that keeps what was
synced:

- A dataset under its final name is complete. Each file is synced, then the hidden folder with their
  names, and only then is the folder renamed.
- A pack that reported success stays. After the rename, the dataset's folder, the data directory and
  the parent of every new folder are synced.
- A dataset that is being replaced is not lost. It is moved aside under a hidden name, and removed
  when the new one is in its place and on disk. The next run, or `imgrec clean`, restores it if the
  new one is missing.
- An unfinished pack keeps the finished shards that reached the disk together with their notes.
  Nobody waits for that; hashes show it. The next run removes the rest.

A tree of files (`unpack`) also appears at once. There the whole system is synced before and after.
Locks belong to the kernel and end with the process that holds them. `remote.staging` describes the
guarantees on an object store.
"""
