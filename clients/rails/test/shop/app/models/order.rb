# frozen_string_literal: true

class Order < ActiveRecord::Base
  has_many :letters
end
