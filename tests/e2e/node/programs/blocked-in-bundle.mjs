// A bundle has the worker's program only with this line.
import 'leasehold/renew-in';
import './blocked.mjs';
