#include "accrue/models/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "accrue/core/atomic_file.h"
#include "accrue/core/error.h"
#include "safetensors_header.h"

namespace accrue::models {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian and tensors are read in place");

constexpr std::int64_t length_bytes = 8;
constexpr std::int64_t largest_header_bytes = 100'000'000;  // the format's own limit
constexpr std::size_t data_alignment = 8;

class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path)
      : name_(path.string()), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) throw unreadable(std::strerror(errno));
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(descriptor_);
      throw unreadable("something that is no file");
    }
    bytes_ = status.st_size;
  }
  ~InputFile() { ::close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& name() const { return name_; }
  std::int64_t bytes() const { return bytes_; }

  void read_at(std::int64_t offset, void* out, std::int64_t count) const {
    auto* destination = static_cast<char*>(out);
    while (count > 0) {
      const ssize_t got =
          ::pread(descriptor_, destination, static_cast<std::size_t>(count), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0)
        throw runtime_error("read " + name_, "a file that stays as it is while it is read",
                            got < 0 ? std::strerror(errno) : "an end of file before its time",
                            "reading it again");
      destination += got;
      offset += got;
      count -= got;
    }
  }

 private:
  Error unreadable(std::string_view reason) const {
    return usage_error("read " + name_, "a readable safetensors file", reason, "another path");
  }

  std::string name_;
  int descriptor_;
  std::int64_t bytes_ = 0;
};

std::int64_t read_header_length(const InputFile& file) {
  if (file.bytes() < length_bytes)
    throw damaged(file.name(), {}, "at least 8 bytes", std::to_string(file.bytes()));
  std::uint64_t length = 0;
  file.read_at(0, &length, length_bytes);
  const std::int64_t limit = std::min(file.bytes() - length_bytes, largest_header_bytes);
  if (length > static_cast<std::uint64_t>(limit))
    throw damaged(file.name(), {},
                  "a header of at most " + std::to_string(limit) + " bytes (the file has " +
                      std::to_string(file.bytes()) + ')',
                  "a stated length of " + std::to_string(length));
  return static_cast<std::int64_t>(length);
}

at::Tensor read_tensor(const InputFile& file, std::int64_t data_offset, const TensorEntry& entry) {
  at::Tensor tensor = at::empty(entry.shape, at::TensorOptions().dtype(entry.dtype));
  const std::int64_t count = entry.end - entry.begin;
  if (count == 0) return tensor;
  auto* bytes = static_cast<unsigned char*>(tensor.mutable_data_ptr());
  file.read_at(data_offset + entry.begin, bytes, count);
  if (entry.dtype == at::kBool &&
      std::any_of(bytes, bytes + count, [](unsigned char byte) { return byte > 1; }))
    throw damaged(file.name(), entry.name, "bytes 0 and 1 as BOOL", "another one");
  return tensor;
}

/// Wider dtypes come first, so that a reader that maps the file finds every tensor aligned.
std::vector<std::size_t> file_order(const NamedParameters& tensors) {
  std::vector<std::size_t> order(tensors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return tensors[a].tensor.element_size() > tensors[b].tensor.element_size();
  });
  return order;
}

void check_names(const NamedParameters& tensors, const std::string& operation) {
  std::set<std::string_view> names{"__metadata__"};
  for (const auto& [name, tensor] : tensors) {
    if (!names.insert(name).second)
      throw usage_error(operation, "each name once, and none called __metadata__", name,
                        "other names");
    if (!tensor.defined())
      throw usage_error(operation, "defined tensors", "an undefined one called " + name,
                        "leaving it out");
  }
}

std::string make_header(const NamedParameters& tensors, const std::vector<std::size_t>& order,
                        const std::map<std::string, std::string>& metadata,
                        const std::string& operation) {
  std::vector<std::int64_t> begin(tensors.size());
  std::int64_t offset = 0;
  for (const std::size_t i : order) {
    begin[i] = offset;
    offset += static_cast<std::int64_t>(tensors[i].tensor.nbytes());
  }
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    header[name] = {
        {"dtype", dtype_name(tensor.scalar_type(), operation + ", tensor " + name)},
        {"shape", tensor.sizes().vec()},
        {"data_offsets", {begin[i], begin[i] + static_cast<std::int64_t>(tensor.nbytes())}}};
  }
  try {
    std::string text = header.dump();
    text.append((data_alignment - text.size() % data_alignment) % data_alignment, ' ');
    return text;
  } catch (const nlohmann::json::exception& error) {
    throw usage_error(operation, "names and metadata in UTF-8", error.what(), "other names");
  }
}

std::string_view bytes_of(const void* data, std::size_t count) {
  return {static_cast<const char*>(data), count};
}

}  // namespace

TensorFile read_safetensors(const std::filesystem::path& path) {
  const InputFile file(path);
  const std::int64_t header_bytes = read_header_length(file);
  std::string json(static_cast<std::size_t>(header_bytes), '\0');
  file.read_at(length_bytes, json.data(), header_bytes);
  SafetensorsHeader header = parse_header(json, file.name());
  const std::int64_t data_offset = length_bytes + header_bytes;
  check_layout(header, file.bytes() - data_offset, file.name());

  TensorFile result;
  result.metadata = std::move(header.metadata);
  for (const TensorEntry& entry : header.tensors)
    result.tensors.push_back({entry.name, read_tensor(file, data_offset, entry)});
  return result;
}

void write_safetensors(const std::filesystem::path& path, const NamedParameters& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string operation = "write " + path.string();
  check_names(tensors, operation);
  const std::vector<std::size_t> order = file_order(tensors);
  const std::string header = make_header(tensors, order, metadata, operation);

  AtomicFile file(path);
  const std::uint64_t header_bytes = header.size();
  file.write(bytes_of(&header_bytes, sizeof header_bytes));
  file.write(header);
  for (const std::size_t i : order) {
    const at::Tensor tensor = tensors[i].tensor.detach().cpu().contiguous();
    file.write(bytes_of(tensor.const_data_ptr(), tensor.nbytes()));
  }
  file.commit();
}

}  // namespace accrue::models
