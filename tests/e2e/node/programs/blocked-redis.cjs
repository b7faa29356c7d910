const { Redis } = require('ioredis');

module.exports = async () => new Redis(process.env.REDIS_URL);
