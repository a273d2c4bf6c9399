#include "train/window/layered/activation_store.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "accrue/core/error.h"
#include "core/descriptor.h"
#include "core/nameless_file.h"

namespace accrue::train {
namespace {

std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

Error failed(const std::string& what, const std::string& folder) {
  return runtime_error("keep activations in " + folder, what, std::strerror(errno),
                       "a folder on a disk with more room, or keeping them in memory");
}

}  // namespace

class ActivationStore::File {
 public:
  explicit File(const std::filesystem::path& folder)
      : folder_(folder.string()), file_(nameless_file("keep activations in " + folder_, folder)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// Writes bytes, and returns their offset.
  std::size_t append(const char* data, std::size_t bytes) {
    const std::size_t offset = end_;
    for (std::size_t done = 0; done < bytes;) {
      const ::ssize_t written =
          ::pwrite(file_.get(), data + done, bytes - done, static_cast<::off_t>(offset + done));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) throw failed("room for " + std::to_string(bytes) + " more bytes", folder_);
      done += static_cast<std::size_t>(written);
    }
    end_ = offset + whole_pages(bytes);
    return offset;
  }

  void* map(std::size_t offset, std::size_t bytes) const {
    void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file_.get(),
                           static_cast<::off_t>(offset));
    if (address == MAP_FAILED)
      throw failed("a map of " + std::to_string(bytes) + " bytes", folder_);
    return address;
  }

  /// Returns space to the disk; if the file system cannot, it is freed with the file.
  void release(std::size_t offset, std::size_t bytes) const {
    ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<::off_t>(offset), static_cast<::off_t>(whole_pages(bytes)));
  }

 private:
  std::string folder_;
  Descriptor file_;
  std::size_t end_ = 0;
};

/// A tensor's place in the file.
struct ActivationStore::Kept::Region {
  std::shared_ptr<File> file;
  std::vector<std::int64_t> sizes;
  at::ScalarType dtype;
  at::Device device;  ///< where the tensor was, and where it is brought back
  std::size_t offset, bytes;

  Region(std::shared_ptr<File> in, const at::Tensor& dense, at::Device from)
      : file(std::move(in)),
        sizes(dense.sizes().vec()),
        dtype(dense.scalar_type()),
        device(from),
        offset(file->append(static_cast<const char*>(dense.const_data_ptr()), dense.nbytes())),
        bytes(dense.nbytes()) {}
  ~Region() { file->release(offset, bytes); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
};

ActivationStore::ActivationStore(const std::filesystem::path& folder)
    : file_(folder.empty() ? nullptr : std::make_shared<File>(folder)) {}

ActivationStore::Kept ActivationStore::keep(const at::Tensor& tensor) {
  Kept kept;
  if (!tensor.defined()) return kept;
  if (file_ == nullptr || tensor.numel() == 0) {
    kept.in_memory_ = tensor.detach();
    return kept;
  }
  kept.file_ =
      std::make_shared<Kept::Region>(file_, tensor.detach().cpu().contiguous(), tensor.device());
  return kept;
}

at::Tensor ActivationStore::Kept::tensor() const {
  if (file_ == nullptr) return in_memory_;
  const std::size_t bytes = file_->bytes;
  void* address = file_->file->map(file_->offset, bytes);
  // The mapping holds the region, so that its space is not freed while it is read.
  const auto unmap = [bytes, region = file_](void* mapped) { ::munmap(mapped, bytes); };
  return at::from_blob(address, file_->sizes, unmap, at::TensorOptions().dtype(file_->dtype))
      .to(file_->device);
}

}  // namespace accrue::train
