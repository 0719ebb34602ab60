"""The only code that creates, replaces or deletes output.

A dataset is written into a hidden folder beside its target, which is renamed to its final name
when every file in it is whole and on disk. What survives a power cut, on a disk that keeps what
it was told to sync:

- what is visible under the final name is complete: each file is synced, then the hidden folder
  with their names, before the rename that makes them visible;
- a pack that said it is done stays done: after the rename, the dataset's folder, the data
  directory and the parent of every folder that was made are synced;
- a dataset that is being replaced is not lost: it is put aside under a hidden name, and removed
  when the new one is in its place and on disk. The next run, or `imgrec clean`, brings it back if
  there is none;
- of a pack that was not done, finished shards are kept if they and the notes about them came to
  disk: nobody waits for that, but hashes tell. Anything else of it is removed by the next run.

A tree of files (`unpack`) appears at once, too; there the whole system is synced before and after.
Locks are the kernel's, and die with the process that holds them. What an object store can promise
instead is said in `remote.staging`.
"""
