#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "accrue/core/clock.h"

namespace accrue {

/// The energy that this machine's processors take, as Linux tells it of processors with RAPL
/// (Documentation/power/powercap): all packages, whichever program keeps them busy. What is inside
/// a package (cores, memory) counts in it; the whole board ("psys") is left out.
///
/// Reading is for root on most systems.
class EnergyMeter {
 public:
  /// Begins to measure. `powercap` is the folder whose intel-rapl:* folders tell.
  explicit EnergyMeter(const std::filesystem::path& powercap = "/sys/class/powercap");
  ~EnergyMeter();
  EnergyMeter(const EnergyMeter&) = delete;
  EnergyMeter& operator=(const EnergyMeter&) = delete;

  /// Begins anew.
  void restart();
  /// Joules since then. None if no package tells, one of them cannot be read, or so much time
  /// has passed that a counter may have gone round more than once.
  std::optional<double> joules() const;

 private:
  /// A package's counter of microjoules, which begins again at 0 behind its range.
  struct Counter {
    int descriptor = -1;
    std::int64_t range = 0;
    std::optional<std::int64_t> before;

    std::optional<std::int64_t> read() const;
    std::optional<std::int64_t> since_before(double seconds) const;
  };

  std::vector<Counter> packages_;
  Stopwatch since_;
};

}  // namespace accrue
