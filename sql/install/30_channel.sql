CALL dp.repair_channel();
