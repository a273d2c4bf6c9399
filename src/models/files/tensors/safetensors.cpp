#include "accrue/models/safetensors.h"

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/memory/offload_passes.h"
#include "core/atomic_file.h"
#include "core/checksum.h"
#include "models/files/tensors/safetensors_header.h"
#include "models/files/tensors/safetensors_input.h"

namespace accrue::models {
namespace {

constexpr std::size_t data_alignment = 8;

/// This is checked before any tensor is read: damage found later would leave a model half
/// loaded.
void check_bools(const InputFile& file, std::int64_t data_offset, const TensorEntry& entry) {
  if (entry.dtype != at::kBool) return;
  std::array<unsigned char, 4096> block{};
  for (std::int64_t at = entry.begin; at < entry.end; at += std::ssize(block)) {
    const std::int64_t count = std::min(entry.end - at, std::ssize(block));
    file.read_at(data_offset + at, block.data(), count);
    if (std::any_of(block.begin(), block.begin() + count,
                    [](unsigned char byte) { return byte > 1; }))
      throw damaged(file.name(), entry.name, "bytes 0 and 1 as BOOL", "another one");
  }
}

/// The position of one tensor's bytes. Copies share the open file.
struct StoredBytes {
  std::shared_ptr<const InputFile> file;
  std::int64_t offset = 0, count = 0;
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> shape;

  bool fit_into(const at::Tensor& target) const {
    return target.is_cpu() && target.is_contiguous() && target.scalar_type() == dtype &&
           target.sizes() == shape;
  }
  void read_into(const at::Tensor& target) const {
    if (count > 0) file->read_at(offset, target.mutable_data_ptr(), count);
  }
  void copy_to(const at::Tensor& target) const {
    if (fit_into(target)) {
      read_into(target);
      // The version informs low-precision copies and autograd of writes by raw pointers.
      target.unsafeGetTensorImpl()->bump_version();
    } else {
      const at::Tensor values = at::empty(shape, at::TensorOptions().dtype(dtype));
      read_into(values);
      target.copy_(values);
    }
  }
};

StoredTensor stored_in(std::shared_ptr<const InputFile> file, std::int64_t data_offset,
                       const TensorEntry& entry) {
  StoredBytes bytes{std::move(file), data_offset + entry.begin, entry.end - entry.begin,
                    entry.dtype, entry.shape};
  return {entry.name, entry.dtype, entry.shape,
          [bytes = std::move(bytes)](const at::Tensor& target) { bytes.copy_to(target); }};
}

/// A tensor's entry in the header.
struct Described {
  std::string name;
  at::ScalarType dtype;
  std::vector<std::int64_t> shape;
  std::int64_t bytes;
};

Described described(const std::string& operation, const std::string& name, at::ScalarType dtype,
                    at::IntArrayRef shape) {
  if (dtype == at::ScalarType::Undefined)
    throw usage_error(operation, "defined tensors", "an undefined one called " + name,
                      "leaving it out");
  return {name, dtype, shape.vec(),
          c10::multiply_integers(shape) * static_cast<std::int64_t>(c10::elementSize(dtype))};
}

/// Wider dtypes come first, so that a reader that maps the file finds every tensor aligned.
std::vector<std::size_t> file_order(const std::vector<Described>& tensors) {
  std::vector<std::size_t> order(tensors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return c10::elementSize(tensors[a].dtype) > c10::elementSize(tensors[b].dtype);
  });
  return order;
}

void check_names(const std::vector<Described>& tensors, const std::string& operation) {
  std::set<std::string_view> names{"__metadata__"};
  for (const Described& tensor : tensors)
    if (!names.insert(tensor.name).second)
      throw usage_error(operation, "each name once, and none called __metadata__", tensor.name,
                        "other names");
}

std::string make_header(const std::vector<Described>& tensors,
                        const std::vector<std::size_t>& order,
                        const std::map<std::string, std::string>& metadata,
                        const std::string& operation) {
  std::vector<std::int64_t> begin(tensors.size());
  std::int64_t offset = 0;
  for (const std::size_t i : order) {
    begin[i] = offset;
    offset += tensors[i].bytes;
  }
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Described& tensor = tensors[i];
    header[tensor.name] = {
        {"dtype", dtype_name(tensor.dtype, operation + ", tensor " + tensor.name)},
        {"shape", tensor.shape},
        {"data_offsets", {begin[i], begin[i] + tensor.bytes}}};
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

/// A file being written, with the checksums of its contents.
class CheckedOutput {
 public:
  explicit CheckedOutput(const std::filesystem::path& path) : file_(path) {}

  void write(std::string_view bytes) {
    file_.write(bytes);
    checksum_.add(bytes);
  }
  /// The checksum of what was written since the last call.
  std::string take_checksum() { return std::exchange(checksum_, {}).text(); }
  void commit() { file_.commit(); }

 private:
  AtomicFile file_;
  Checksum checksum_;
};

/// A tensor that is not contiguous is copied a few rows at a time: a checkpoint can be written even
/// if memory has run out. Of one that is offloaded, little is in memory at a time.
void write_tensor(CheckedOutput& file, const at::Tensor& tensor) {
  constexpr std::int64_t piece_bytes = 48 << 10;
  if (tensor.is_contiguous() || tensor.dim() == 0 || tensor.numel() == 0) {
    const at::Tensor dense = tensor.cpu().contiguous();
    const auto* const first = static_cast<const char*>(dense.const_data_ptr());
    const auto bytes = static_cast<std::int64_t>(dense.element_size());
    return memory::for_pieces(dense, [&](std::int64_t begin, std::int64_t count) {
      file.write(bytes_of(first + begin * bytes, static_cast<std::size_t>(count * bytes)));
    });
  }
  memory::keep_only(tensor);
  const auto row_bytes = static_cast<std::int64_t>(tensor.nbytes()) / tensor.size(0);
  const std::int64_t rows = std::max<std::int64_t>(1, piece_bytes / row_bytes);
  for (std::int64_t row = 0; row < tensor.size(0); row += rows) {
    const at::Tensor piece =
        tensor.narrow(0, row, std::min(rows, tensor.size(0) - row)).cpu().contiguous();
    file.write(bytes_of(piece.const_data_ptr(), piece.nbytes()));
  }
}

/// `values(i)` returns tensor i, on the CPU, when it is written.
template <class Values>
TensorChecksums write_file(const std::filesystem::path& path, const std::string& operation,
                           const std::vector<Described>& tensors,
                           const std::map<std::string, std::string>& metadata,
                           const Values& values) {
  check_names(tensors, operation);
  const std::vector<std::size_t> order = file_order(tensors);
  const std::string header = make_header(tensors, order, metadata, operation);

  CheckedOutput file(path);
  const std::uint64_t header_bytes = header.size();
  file.write(bytes_of(&header_bytes, sizeof header_bytes));
  file.write(header);
  TensorChecksums checksums{.header = file.take_checksum(), .tensors = {}};
  for (const std::size_t i : order) {
    write_tensor(file, values(i));
    checksums.tensors[tensors[i].name] = file.take_checksum();
  }
  file.commit();
  return checksums;
}

}  // namespace

StoredTensorFile open_safetensors(const std::filesystem::path& path) {
  const auto file = std::make_shared<const InputFile>(path);
  FileHead head = read_head(*file);

  StoredTensorFile result;
  result.metadata = std::move(head.header.metadata);
  for (const TensorEntry& entry : head.header.tensors) {
    check_bools(*file, head.data_offset(), entry);
    result.tensors.push_back(stored_in(file, head.data_offset(), entry));
  }
  return result;
}

TensorChecksums safetensors_checksums(const std::filesystem::path& path) {
  const InputFile file(path);
  const FileHead head = read_head(file);
  TensorChecksums checksums{.header = checksum_of(head.bytes), .tensors = {}};
  for (const TensorEntry& entry : head.header.tensors)
    checksums.tensors[entry.name] =
        file.checksum_at(head.data_offset() + entry.begin, entry.end - entry.begin);
  return checksums;
}

TensorFile read_safetensors(const std::filesystem::path& path) {
  StoredTensorFile file = open_safetensors(path);
  TensorFile result;
  result.metadata = std::move(file.metadata);
  for (const StoredTensor& tensor : file.tensors)
    result.tensors.push_back({tensor.name, tensor.read()});
  return result;
}

TensorChecksums write_safetensors(const std::filesystem::path& path, const NamedParameters& tensors,
                                  const std::map<std::string, std::string>& metadata) {
  const std::string operation = "write " + path.string();
  std::vector<Described> described_tensors;
  for (const auto& [name, tensor] : tensors)
    described_tensors.push_back(described(operation, name, tensor.scalar_type(),
                                          tensor.defined() ? tensor.sizes() : at::IntArrayRef()));
  return write_file(path, operation, described_tensors, metadata,
                    [&](std::size_t i) { return tensors[i].tensor.detach().cpu(); });
}

TensorChecksums write_stored_safetensors(const std::filesystem::path& path,
                                         const StoredTensors& tensors,
                                         const std::map<std::string, std::string>& metadata) {
  const std::string operation = "write " + path.string();
  std::vector<Described> described_tensors;
  for (const StoredTensor& tensor : tensors)
    described_tensors.push_back(described(operation, tensor.name, tensor.dtype, tensor.shape));
  return write_file(path, operation, described_tensors, metadata,
                    [&](std::size_t i) { return tensors[i].read(); });
}

}  // namespace accrue::models
