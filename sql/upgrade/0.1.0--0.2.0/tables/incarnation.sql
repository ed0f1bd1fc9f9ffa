ALTER TABLE dp.incarnation ADD COLUMN inode numeric, ADD COLUMN ctime bigint, ADD CHECK ((inode IS NULL) = (ctime IS NULL));
