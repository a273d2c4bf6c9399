#include "train/checkpoint/copied_file.h"

#include <algorithm>
#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "core/open_file.h"

namespace accrue::train {

void copy_atomically(std::ifstream& from, const std::filesystem::path& to, std::int64_t most) {
  constexpr std::int64_t bytes_at_once = 1 << 20;
  std::vector<char> bytes(static_cast<std::size_t>(bytes_at_once));
  AtomicFile copy(to);
  while (most > 0 && from.read(bytes.data(), std::min(most, bytes_at_once)).gcount() > 0) {
    copy.write({bytes.data(), static_cast<std::size_t>(from.gcount())});
    most -= from.gcount();
  }
  if (from.bad())
    throw runtime_error("copy to " + to.string(), "a file that can be read to its end",
                        "one that cannot", "mending the file system that it is on");
  copy.commit();
}

void copy_atomically(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::ifstream content = stream_to_read(from);
  if (!content)
    throw runtime_error("read " + from.string(), "a readable file", "none that can be opened",
                        "mending the file system that it is on");
  copy_atomically(content, to);
}

}  // namespace accrue::train
