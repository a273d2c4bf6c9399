#include "data/files/fingerprint.h"

#include <array>
#include <charconv>
#include <span>
#include <utility>

#include "data/files/content_hash.h"

namespace accrue::data {
namespace {

std::string hexadecimal(std::uint64_t word) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), word, 16).ptr;
  const auto count = static_cast<std::size_t>(end - digits.data());
  return std::string(digits.size() - count, '0') + std::string(digits.data(), count);
}

void add_text(ContentHash& hash, const std::string& text) {
  hash.add(std::as_bytes(std::span(text)));
}

void add_file(ContentHash& hash, const FilePool& files, std::size_t file,
              std::vector<std::byte>& buffer) {
  add_text(hash, files.path(file).filename().string());
  hash.add(static_cast<std::uint64_t>(files.bytes(file)));
  for (const Block& block : fingerprint_blocks(files.bytes(file))) {
    buffer.resize(static_cast<std::size_t>(block.size));
    files.read(file, block.offset, buffer);
    hash.add(buffer);
  }
}

}  // namespace

Fingerprint::Fingerprint(std::string kind, const FilePool& files, std::vector<std::string> parts)
    : kind_(std::move(kind)), files_(files), parts_(std::move(parts)) {}

std::string Fingerprint::text() const {
  const std::lock_guard lock(mutex_);
  if (!text_) text_ = make();
  return *text_;
}

std::string Fingerprint::make() const {
  ContentHash hash;
  std::vector<std::byte> buffer;
  std::int64_t bytes = 0;
  for (const std::string& part : parts_) add_text(hash, part);
  for (std::size_t file = 0; file < files_.count(); ++file) {
    add_file(hash, files_, file, buffer);
    bytes += files_.bytes(file);
  }
  return kind_ + ": " + std::to_string(files_.count()) + " files, " + std::to_string(bytes) +
         " bytes, hash " + hexadecimal(hash.value());
}

}  // namespace accrue::data
