-- Where nothing speaks for a copy, this is the original: the new form of where it is. Else the accounts stay frozen.
UPDATE dp.incarnation i SET inode = p.inode, ctime = p.ctime FROM dp._place() p
WHERE i.system_identifier = p.system_identifier AND i.timeline = p.timeline AND i.database_oid = p.database_oid;
