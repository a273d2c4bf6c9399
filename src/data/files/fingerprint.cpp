#include "data/files/fingerprint.h"

#include <array>
#include <charconv>
#include <map>
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

/// Adds a file to the hash of all, and returns its own; the file is read once.
std::uint64_t add_file(ContentHash& all, const FilePool& files, std::size_t file,
                       std::vector<std::byte>& buffer) {
  ContentHash own;
  add_text(all, files.path(file).filename().string());
  const auto bytes = static_cast<std::uint64_t>(files.bytes(file));
  all.add(bytes);
  own.add(bytes);
  for (const Block& block : fingerprint_blocks(files.bytes(file))) {
    buffer.resize(static_cast<std::size_t>(block.size));
    files.read(file, block.offset, buffer);
    all.add(buffer);
    own.add(buffer);
  }
  return own.value();
}

/// The files of one folder as one.
class FolderOfFiles {
 public:
  void add(const std::string& name, std::int64_t bytes, std::uint64_t fingerprint) {
    add_text(hash_, name);
    hash_.add(fingerprint);
    bytes_ += bytes;
    ++files_;
  }
  DataFile described(const std::filesystem::path& folder) const {
    return {.path = folder,
            .files = files_,
            .bytes = bytes_,
            .fingerprint = hexadecimal(hash_.value())};
  }

 private:
  ContentHash hash_;
  std::int64_t bytes_ = 0, files_ = 0;
};

}  // namespace

std::string with_tokenizer(std::string kind, const Tokenizer* tokenizer) {
  return tokenizer ? kind + ", tokenizer " + tokenizer->fingerprint() : kind;
}

Fingerprint::Fingerprint(std::string kind, const FilePool& files, std::vector<std::string> parts)
    : kind_(std::move(kind)), files_(files), parts_(std::move(parts)) {}

std::string Fingerprint::text() const {
  make_once();
  return text_;
}

std::vector<DataFile> Fingerprint::files() const {
  constexpr std::size_t most_named_singly = 1000;
  make_once();
  std::vector<DataFile> list;
  if (files_.count() <= most_named_singly) {
    for (std::size_t file = 0; file < files_.count(); ++file) list.push_back(described(file));
    return list;
  }
  std::map<std::filesystem::path, FolderOfFiles> folders;
  for (std::size_t file = 0; file < files_.count(); ++file) {
    const std::filesystem::path& path = files_.path(file);
    folders[path.parent_path()].add(path.filename().string(), files_.bytes(file), of_files_[file]);
  }
  for (const auto& [path, folder] : folders) list.push_back(folder.described(path));
  return list;
}

DataFile Fingerprint::described(std::size_t file) const {
  return {.path = files_.path(file),
          .bytes = files_.bytes(file),
          .fingerprint = hexadecimal(of_files_[file])};
}

void Fingerprint::make_once() const {
  std::call_once(made_, [this] { make(); });
}

void Fingerprint::make() const {
  ContentHash hash;
  std::vector<std::byte> buffer;
  std::vector<std::uint64_t> of_files;
  std::int64_t bytes = 0;
  for (const std::string& part : parts_) add_text(hash, part);
  for (std::size_t file = 0; file < files_.count(); ++file) {
    of_files.push_back(add_file(hash, files_, file, buffer));
    bytes += files_.bytes(file);
  }
  text_ = kind_ + ": " + std::to_string(files_.count()) + " files, " + std::to_string(bytes) +
          " bytes, hash " + hexadecimal(hash.value());
  of_files_ = std::move(of_files);
}

}  // namespace accrue::data
