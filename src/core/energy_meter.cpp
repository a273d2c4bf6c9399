#include "core/energy_meter.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <fstream>
#include <string>

namespace accrue {
namespace {

namespace fs = std::filesystem;

constexpr double microjoules_per_joule = 1e6;
/// No package uses more for a long time, so a counter has not wrapped twice before its range is
/// used up at this rate.
constexpr double most_watts_of_a_package = 1000;

std::string first_word_of(const fs::path& file) {
  std::ifstream stream(file);
  std::string word;
  stream >> word;
  return word;
}

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && number >= 0 ? std::optional(number) : std::nullopt;
}

/// The folders of packages; folders inside of one have a second colon in their name.
std::vector<fs::path> packages_in(const fs::path& powercap) {
  std::vector<fs::path> packages;
  std::error_code none_there;
  for (const fs::directory_entry& entry : fs::directory_iterator(powercap, none_there)) {
    const std::string name = entry.path().filename().string();
    const bool is_zone = name.starts_with("intel-rapl:") && name.rfind(':') == name.find(':');
    if (is_zone && first_word_of(entry.path() / "name").starts_with("package"))
      packages.push_back(entry.path());
  }
  return packages;
}

}  // namespace

EnergyMeter::EnergyMeter(const fs::path& powercap) {
  for (const fs::path& package : packages_in(powercap))
    packages_.push_back(
        {.descriptor = ::open((package / "energy_uj").c_str(), O_RDONLY | O_CLOEXEC),
         .range = number_of(first_word_of(package / "max_energy_range_uj")).value_or(0)});
  restart();
}

EnergyMeter::~EnergyMeter() {
  for (const Counter& package : packages_)
    if (package.descriptor >= 0) ::close(package.descriptor);
}

void EnergyMeter::restart() {
  for (Counter& package : packages_) package.before = package.read();
  since_.restart();
}

std::optional<double> EnergyMeter::joules() const {
  if (packages_.empty()) return std::nullopt;
  double microjoules = 0;
  for (const Counter& package : packages_) {
    const std::optional<std::int64_t> taken = package.since_before(since_.seconds());
    if (!taken) return std::nullopt;
    microjoules += static_cast<double>(*taken);
  }
  return microjoules / microjoules_per_joule;
}

std::optional<std::int64_t> EnergyMeter::Counter::read() const {
  std::array<char, 32> text{};
  const ssize_t bytes = ::pread(descriptor, text.data(), text.size(), 0);
  if (bytes <= 0) return std::nullopt;
  return number_of({text.data(), static_cast<std::size_t>(bytes)});
}

std::optional<std::int64_t> EnergyMeter::Counter::since_before(double seconds) const {
  const bool may_be_round_twice =
      seconds * most_watts_of_a_package * microjoules_per_joule > static_cast<double>(range);
  const std::optional<std::int64_t> now = read();
  if (!before || !now || may_be_round_twice) return std::nullopt;
  return *now >= *before ? *now - *before : *now - *before + range;
}

}  // namespace accrue
