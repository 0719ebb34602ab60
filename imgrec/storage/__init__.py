"""The only code that creates, replaces or deletes output.

A dataset is written into a hidden folder beside its target, which is renamed to its final name
when every file in it is whole and on disk: files are synced before the rename, the folders
before and after it. So what is visible under the final name is complete, also after a power cut;
what was not finished is a hidden folder that the next run removes.
"""
