#include "train/plan/offload_traffic.h"

namespace accrue::train {

OffloadTraffic offload_traffic(const memory::Storage& storage) {
  const double parameter = storage.values.master;
  const double copy = storage.values.operand < parameter ? storage.values.operand : 0;
  const double sum = storage.gradient, moments = storage.moments;
  return {.forward = {.read = parameter + copy, .write = copy},
          .backward = {.read = parameter + copy, .write = sum},
          .closing = {.read = 2 * sum},
          .step = {.read = parameter + sum + moments, .write = parameter + moments}};
}

}  // namespace accrue::train
