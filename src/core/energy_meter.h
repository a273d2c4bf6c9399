#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "accrue/core/clock.h"

namespace accrue {

/// The energy that this machine's processors use, as Linux reports it for processors with RAPL
/// (Documentation/power/powercap): all packages, whichever program uses them. Parts of a package
/// (cores, memory) are included in it; the whole board ("psys") is left out.
///
/// Only root may read it on most systems.
class EnergyMeter {
 public:
  /// Starts the measurement. `powercap` is the folder with the intel-rapl:* folders.
  explicit EnergyMeter(const std::filesystem::path& powercap = "/sys/class/powercap");
  ~EnergyMeter();
  EnergyMeter(const EnergyMeter&) = delete;
  EnergyMeter& operator=(const EnergyMeter&) = delete;

  /// Starts the measurement again.
  void restart();
  /// Joules since the start. Nothing if there is no package, one of them cannot be read, or so much
  /// time has passed that a counter may have wrapped more than once.
  std::optional<double> joules() const;

 private:
  /// A package's counter of microjoules, which starts again at 0 after its range.
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
