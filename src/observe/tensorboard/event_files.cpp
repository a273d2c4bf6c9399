#include "observe/tensorboard/event_files.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accrue::observe {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNamePrefix = "events.out.tfevents.";

/// The time in an event file's name; none if it is another file.
std::optional<std::int64_t> time_in(const fs::path& file) {
  const std::string name = file.filename().string();
  if (!name.starts_with(kNamePrefix)) return std::nullopt;
  std::int64_t time = 0;
  const char* const begin = name.data() + kNamePrefix.size();
  const auto [end, error] = std::from_chars(begin, name.data() + name.size(), time);
  return error == std::errc{} ? std::optional(time) : std::nullopt;
}

std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code unreadable;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, unreadable))
    if (time_in(entry.path())) files.push_back(entry.path());
  return files;
}

std::string host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace

fs::path new_event_file(const fs::path& folder, double now) {
  auto time = static_cast<std::int64_t>(now);
  for (const fs::path& file : event_files(folder)) time = std::max(time, *time_in(file) + 1);
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%010lld", static_cast<long long>(time));
  return folder / (std::string(kNamePrefix) + digits.data() + "." + host() + "." +
                   std::to_string(::getpid()));
}

void remove_event_files(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::path& file : event_files(folder)) fs::remove(file, ignored);
  fs::remove(folder, ignored);
}

}  // namespace accrue::observe
